// NAPT: TCP and UDP get the outside address; TCP leaves at 'tcp', UDP goes on at 'udp'.
tcp :: ToDevice(tcp);
udp :: ToDevice(udp);

FromDevice(inside)
  -> Strip(14)
  -> CheckIPHeader
  -> rw :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 0)
  -> DecIPTTL
  -> proto :: IPClassifier(tcp, udp);

proto[0] -> IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:09:00) -> tcp;
proto[1] -> IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:00:00:01:02, 02:00:00:00:02:00) -> udp;
