"""How fast this machine is: probes, the calibration, the traffic and roofline of a gather, and `Kernel.explain`."""
