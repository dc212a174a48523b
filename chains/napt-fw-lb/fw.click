// L4 firewall: only UDP to port 1234 passes.
FromDevice(in)
  -> Strip(14)
  -> CheckIPHeader
  -> IPFilter(allow udp && dst port 1234, deny all)
  -> DecIPTTL
  -> IPFragmenter(1500)
  -> EtherEncap(0x0800, 02:00:00:00:02:01, 02:00:00:00:03:00)
  -> ToDevice(out);
