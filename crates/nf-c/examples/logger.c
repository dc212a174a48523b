/* A network function that writes the first bytes of every packet to a file while packets go on, and reads the file's
 * beginning back at the end. Packets go from port 0 to port 1, and back. */
#include <fcntl.h>
#include <onefold_nf.h>
#include <stdio.h>
#include <string.h>

#define RECORD 16u
#define RECORDS 4096u

struct log {
  int fd;
  unsigned next;
  unsigned long written;
  unsigned long failed;
  unsigned long full;
  uint8_t records[RECORDS][RECORD];
};

static void written(onefold_nf *nf, int fd, void *buffer, int64_t result, void *context) {
  struct log *log = context;

  (void)nf;
  (void)fd;
  (void)buffer;
  if (result == (int64_t)RECORD) {
    log->written++;
  } else {
    log->failed++;
  }
}

static uint32_t handle(onefold_nf *nf, onefold_pkt *pkt, void *context) {
  struct log *log = context;
  unsigned n = log->next++;
  uint8_t *record = log->records[n % RECORDS];
  uint32_t len = pkt->len < RECORD ? pkt->len : RECORD;
  int status;

  memset(record, 0, RECORD);
  memcpy(record, pkt->data, len);
  while ((status = onefold_nf_write_data(nf, log->fd, record, RECORD, (uint64_t)n * RECORD, written, log)) == 1) {
    log->full++;
    if (onefold_nf_wait(nf, 1) < 0) {
      break;
    }
  }
  return pkt->port == 0 ? 1 : 0;
}

static void compared(onefold_nf *nf, int fd, void *buffer, int64_t result, void *context) {
  const struct log *log = context;

  (void)nf;
  (void)fd;
  if (result < 0 || memcmp(buffer, log->records[0], RECORD) != 0) {
    fprintf(stderr, "logger: the first record is another one\n");
  }
}

int main(int argc, char **argv) {
  static struct log log;
  static uint8_t first[RECORD];
  int status;
  onefold_nf *nf = onefold_nf_open();

  if (nf == NULL) {
    fprintf(stderr, "logger: %s\n", onefold_nf_error(NULL));
    return 2;
  }
  log.fd = open(argc > 1 ? argv[1] : "packets.log", O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (log.fd < 0 || onefold_nf_data_setup(nf, 8, 500) != 0) {
    perror("logger");
    return 2;
  }
  status = onefold_nf_run(nf, handle, &log);
  if (log.next <= RECORDS) {
    onefold_nf_read_data(nf, log.fd, first, RECORD, 0, compared, &log);
  }
  if (onefold_nf_close(nf) != 0) {
    status = 1;
  }
  fprintf(stderr, "logger: %lu records written, %lu failed, %lu times full\n", log.written, log.failed, log.full);
  return status == 0 && log.failed == 0 && log.written == log.next ? 0 : 1;
}
