/* A network function that writes every packet to a file while packets go on: a record of 16 bytes for each, its number,
 * its length, and the first bytes of it. Packets go from port 0 to port 1, and back. It goes on behind what is in the
 * file already, so that nothing is lost of the log when it is launched again.
 *
 *   logger FILE [RECORDS-IN-A-BUFFER [MICROSECONDS]] */
#include <fcntl.h>
#include <onefold_nf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than both buffers have, and more than packets of a batch: a record is used again when it has been written. */
#define RECORDS 16384u

struct record {
  uint32_t number;
  uint32_t len;
  uint8_t bytes[8];
};

struct log {
  int fd;
  uint32_t next;
  int last_error;
  unsigned long written;
  unsigned long failed;
  unsigned long left_out;
  struct record *free[RECORDS];
  unsigned n_free;
  struct record records[RECORDS];
};

static struct log the_log;
static onefold_nf *the_nf;

static void written(onefold_nf *nf, int fd, void *buffer, int64_t result, void *context) {
  struct log *log = context;

  (void)nf;
  (void)fd;
  if (result == (int64_t)sizeof(struct record)) {
    log->written++;
  } else {
    log->failed++;
    log->last_error = (int)-result;
  }
  log->free[log->n_free++] = buffer;
}

static uint32_t handle(onefold_nf *nf, onefold_pkt *pkt, void *context) {
  struct log *log = context;
  struct record *r;

  if (log->n_free == 0) {
    log->left_out++;
    return pkt->port ^ 1u;
  }
  r = log->free[--log->n_free];
  memset(r, 0, sizeof *r);
  r->number = log->next;
  r->len = pkt->len;
  memcpy(r->bytes, pkt->data, pkt->len < sizeof r->bytes ? pkt->len : sizeof r->bytes);
  /* gives the processor up while both buffers are full */
  if (onefold_nf_write_data(nf, log->fd, r, sizeof *r, (uint64_t)log->next * sizeof *r, written, log) == 0) {
    log->next++;
  } else {
    log->left_out++;
    log->free[log->n_free++] = r;
  }
  return pkt->port ^ 1u;
}

static void stop(int signal) {
  (void)signal;
  onefold_nf_stop(the_nf);
}

int main(int argc, char **argv) {
  struct log *log = &the_log;
  struct sigaction action;
  const char *file = argc > 1 ? argv[1] : "packets.log";
  unsigned batch = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 256;
  unsigned flush = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1000;
  off_t end;
  int status;

  the_nf = onefold_nf_open();
  if (the_nf == NULL) {
    fprintf(stderr, "logger: %s\n", onefold_nf_error(NULL));
    return 2;
  }
  log->fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  end = log->fd < 0 ? -1 : lseek(log->fd, 0, SEEK_END);
  if (end < 0 || onefold_nf_data_setup(the_nf, batch, flush) != 0) {
    perror(file);
    return 2;
  }
  /* behind the last whole record */
  log->next = (uint32_t)((uint64_t)end / sizeof(struct record));
  for (log->n_free = 0; log->n_free < RECORDS; log->n_free++) {
    log->free[log->n_free] = &log->records[log->n_free];
  }
  memset(&action, 0, sizeof action);
  action.sa_handler = stop;
  sigaction(SIGTERM, &action, NULL);
  status = onefold_nf_run(the_nf, handle, log);
  if (status != 0) {
    fprintf(stderr, "logger: %s\n", onefold_nf_error(the_nf));
  }
  fprintf(stderr, "logger: by %s\n", onefold_nf_data_engine(the_nf));
  signal(SIGTERM, SIG_IGN);
  if (onefold_nf_close(the_nf) != 0) {
    status = 1;
  }
  fprintf(stderr, "logger: %lu records written, %lu failed, %lu left out\n", log->written, log->failed, log->left_out);
  if (log->failed > 0) {
    fprintf(stderr, "logger: %s: %s\n", file, strerror(log->last_error));
  }
  close(log->fd);
  return status == 0 && log->failed == 0 && log->left_out == 0 ? 0 : 1;
}
