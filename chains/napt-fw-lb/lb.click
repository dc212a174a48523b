// L3 load balancer: two servers, round robin per flow, then routed.
servers :: RoundRobinIPMapper(- - 10.0.0.1 - 0 0, - - 10.0.0.2 - 0 0);

FromDevice(in)
  -> Strip(14)
  -> CheckIPHeader
  -> IPRewriter(servers)
  -> GetIPAddress(16)
  -> RadixIPLookup(10.0.0.0/24 0)
  -> DecIPTTL
  -> IPFragmenter(1500)
  -> EtherEncap(0x0800, 02:00:00:00:03:01, 02:00:00:00:09:01)
  -> ToDevice(out);
