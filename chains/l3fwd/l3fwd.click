// L3 forwarding with ten routes: look-up, TTL, new frame.
FromDevice(0)
  -> Strip(14)
  -> CheckIPHeader
  -> GetIPAddress(16)
  -> RadixIPLookup(198.18.0.0/18 0, 198.18.64.0/18 0, 198.18.128.0/18 0, 198.18.192.0/18 0, 198.19.0.0/17 0,
                   198.19.128.0/17 0, 10.0.0.0/8 0, 172.16.0.0/12 0, 192.168.0.0/16 0, 203.0.113.0/24 0)
  -> DecIPTTL
  -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:03)
  -> ToDevice(1);
