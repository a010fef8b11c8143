"""Calibration: the numbers of a machine model, measured on this machine, by which schedules are chosen from then on."""
