/* The NF library: network functions that are programs of their own, in chains of Onefold. See onefold_nf(3).
 *
 * A program is launched by `onefold run`, which tells it over a socket what its place in the chain is. Packets lie in
 * memory that all programs of the chain share: they are read in batches, changed where they lie, and written to a port,
 * or dropped. A place is used by one thread at a time. */
#ifndef ONEFOLD_NF_H
#define ONEFOLD_NF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. */
#define ONEFOLD_NF_VERSION 2
/* Most packets of a batch. */
#define ONEFOLD_NF_BATCH 32
/* In onefold_pkt.flags: the packet goes on in the next one of its port (it does not fit into one slot). */
#define ONEFOLD_PKT_MORE 1u
/* As a port: the packet is dropped. */
#define ONEFOLD_NF_DROP UINT32_MAX

/* A place in a chain. */
typedef struct onefold_nf onefold_nf;

/* A packet that the program has. `data` may be moved within `slot` .. `slot + slot_len`, and `len` changed; the rest is
 * to be left as it is. */
typedef struct onefold_pkt {
  uint8_t *data;
  uint32_t len;
  uint32_t slot_len;
  uint8_t *slot;
  uint64_t time; /* when it arrived, nanoseconds since 1970 */
  uint32_t port; /* where it came from */
  uint32_t flags;
  uint32_t number;
  uint32_t reserved;
} onefold_pkt;

/* Called for each packet: the port that it is to leave through, or ONEFOLD_NF_DROP. */
typedef uint32_t (*onefold_nf_handler)(onefold_nf *nf, onefold_pkt *pkt, void *context);

/* Takes the place that the environment names (ONEFOLD_NF_FD). NULL: there is none; onefold_nf_error(NULL) says why. */
onefold_nf *onefold_nf_open(void);

/* Gives packets that the program still has back, says what was done, and ends. 0, or -1: the launcher is gone. */
int onefold_nf_close(onefold_nf *nf);

/* How many ports there are. */
uint32_t onefold_nf_ports(const onefold_nf *nf);

/* Sends what was written, and reads up to n packets that have arrived (ONEFOLD_NF_BATCH at most) at one port; does not
 * wait. How many; -1: an error. */
int onefold_nf_read_pkt(onefold_nf *nf, onefold_pkt *pkts, unsigned n);

/* n packets leave through a port, in this order. How many did: others had data outside of their slot, or were none of
 * this program's, and are dropped. */
int onefold_nf_write_pkt(onefold_nf *nf, const onefold_pkt *pkts, unsigned n, uint32_t port);

/* n packets are dropped. */
void onefold_nf_drop_pkt(onefold_nf *nf, const onefold_pkt *pkts, unsigned n);

/* A new packet without data, to be filled and written. 0; -1: there is no slot at present. */
int onefold_nf_new_pkt(onefold_nf *nf, onefold_pkt *pkt);

/* Sends what was written, and sleeps until packets arrive, the launcher wants something, or so many milliseconds are
 * over. 0: go on; 1: the program is to end; -1: an error. */
int onefold_nf_wait(onefold_nf *nf, unsigned milliseconds);

/* Reads, calls the handler for each packet, writes, sleeps, until the program is to end. 0; -1: an error. */
int onefold_nf_run(onefold_nf *nf, onefold_nf_handler handler, void *context);

/* onefold_nf_run returns 0 when it has done what it has read. May be called by another thread, and by a handler of
 * signals. */
void onefold_nf_stop(const onefold_nf *nf);

/* Files, without waiting for them: requests are collected in one buffer while those of another one are carried out, by
 * io_uring, or by a thread where that is not permitted. Their callbacks are called in the program's own thread, in
 * onefold_nf_read_pkt, onefold_nf_wait, onefold_nf_run or onefold_nf_close, that is, between two batches: `result` is
 * how many bytes were read or written, or a negative error number (-ENOSPC). Bytes and descriptor are the library's
 * until then. */
typedef void (*onefold_nf_data_callback)(onefold_nf *nf, int fd, void *buffer, int64_t result, void *context);

/* So many requests in each of both buffers (32, if nothing is said; 4096 at most), and how long a buffer that is not
 * full waits (1000). 0; -1: requests are under way. */
int onefold_nf_data_setup(onefold_nf *nf, unsigned batch, unsigned flush_microseconds);

/* Reads and writes `size` bytes at `offset` of a file that has offsets. When both buffers are full, sends what was
 * written to ports, tells the launcher, and gives the processor up until one of them has been carried out. Requests may
 * be carried out in any order: one that depends on another one waits for its callback. 0: it is under way; -1: an
 * error, and there will be no callback. */
int onefold_nf_read_data(onefold_nf *nf, int fd, void *buffer, size_t size, uint64_t offset,
                         onefold_nf_data_callback callback, void *context);
int onefold_nf_write_data(onefold_nf *nf, int fd, const void *buffer, size_t size, uint64_t offset,
                          onefold_nf_data_callback callback, void *context);

/* How many requests are taken at this moment before the processor is given up. */
unsigned onefold_nf_data_room(onefold_nf *nf);

/* "io_uring", or "thread". */
const char *onefold_nf_data_engine(onefold_nf *nf);

/* Does the launcher want the program to sleep after this batch? onefold_nf_wait does so. */
int onefold_nf_relinquish(const onefold_nf *nf);

/* What a packet costs, as far as the program knows, in nanoseconds. */
void onefold_nf_cost_hint(onefold_nf *nf, uint64_t ns);

/* Why the last call failed. Of NULL: why onefold_nf_open did. Valid until the next call. */
const char *onefold_nf_error(const onefold_nf *nf);

#ifdef __cplusplus
}
#endif
#endif
