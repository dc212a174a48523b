/* What mirror.c does, and everything that a program may get wrong meanwhile: packets that it does not have, data
 * outside of their slots, ports that there are not. The library refuses, and the chain goes on. */
#include <onefold_nf.h>
#include <stdio.h>
#include <string.h>

static uint32_t handle(onefold_nf *nf, onefold_pkt *pkt, void *context) {
  unsigned long *refused = context;
  uint8_t mac[6];
  onefold_pkt other = *pkt;

  other.number = pkt->number + 100000u;
  if (onefold_nf_write_pkt(nf, &other, 1, 0) == 0) {
    ++*refused;
  }
  other.number = UINT32_MAX;
  onefold_nf_drop_pkt(nf, &other, 1);
  if (onefold_nf_new_pkt(nf, &other) == 0) {
    memset(other.data, 0, 60);
    other.len = UINT32_MAX;
    if (onefold_nf_write_pkt(nf, &other, 1, 0) == 0) {
      ++*refused;
    }
  }
  if (onefold_nf_new_pkt(nf, &other) == 0) {
    other.data = NULL;
    other.len = 60;
    if (onefold_nf_write_pkt(nf, &other, 1, 1) == 0) {
      ++*refused;
    }
    /* it is not there any more */
    onefold_nf_drop_pkt(nf, &other, 1);
  }
  if (onefold_nf_new_pkt(nf, &other) == 0) {
    other.len = 60;
    if (onefold_nf_write_pkt(nf, &other, 1, onefold_nf_ports(nf)) == 0) {
      ++*refused;
    }
  }
  if (pkt->len < 12) {
    onefold_nf_drop_pkt(nf, pkt, 1);
    /* dropped twice */
    return ONEFOLD_NF_DROP;
  }
  memcpy(mac, pkt->data, sizeof mac);
  memmove(pkt->data, pkt->data + 6, sizeof mac);
  memcpy(pkt->data + 6, mac, sizeof mac);
  return pkt->port == 0 ? 1 : 0;
}

int main(void) {
  unsigned long refused = 0;
  int status;
  onefold_nf *nf = onefold_nf_open();

  if (nf == NULL) {
    fprintf(stderr, "misuse: %s\n", onefold_nf_error(NULL));
    return 2;
  }
  if (onefold_nf_read_pkt(nf, NULL, 1) != -1 || onefold_nf_run(nf, NULL, NULL) != -1 ||
      onefold_nf_write_pkt(nf, NULL, 3, 0) != 0 || onefold_nf_relinquish(nf) != 0) {
    return 3;
  }
  status = onefold_nf_run(nf, handle, &refused);
  if (onefold_nf_close(nf) != 0 || status != 0) {
    return 1;
  }
  return refused > 0 ? 0 : 4;
}
