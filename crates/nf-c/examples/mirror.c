/* A network function: swaps source and destination MAC address, and sends what comes from port 0 on through port 1, and
 * back. Frames that are too short for that are dropped. */
#include <onefold_nf.h>
#include <stdio.h>
#include <string.h>

struct counts {
  unsigned long mirrored;
  unsigned long dropped;
};

static uint32_t handle(onefold_nf *nf, onefold_pkt *pkt, void *context) {
  struct counts *counts = context;
  uint8_t mac[6];

  (void)nf;
  if (pkt->len < 12) {
    counts->dropped++;
    return ONEFOLD_NF_DROP;
  }
  memcpy(mac, pkt->data, sizeof mac);
  memmove(pkt->data, pkt->data + 6, sizeof mac);
  memcpy(pkt->data + 6, mac, sizeof mac);
  counts->mirrored++;
  return pkt->port == 0 ? 1 : 0;
}

int main(void) {
  struct counts counts = {0, 0};
  int status;
  onefold_nf *nf = onefold_nf_open();

  if (nf == NULL) {
    fprintf(stderr, "mirror: %s\n", onefold_nf_error(NULL));
    return 2;
  }
  onefold_nf_cost_hint(nf, 20);
  status = onefold_nf_run(nf, handle, &counts);
  if (status != 0) {
    fprintf(stderr, "mirror: %s\n", onefold_nf_error(nf));
  }
  fprintf(stderr, "mirror: %lu frames mirrored, %lu dropped\n", counts.mirrored, counts.dropped);
  return onefold_nf_close(nf) == 0 && status == 0 ? 0 : 1;
}
