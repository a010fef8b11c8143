"""Files about machines: those that the knob `machine` names, and the calibration of this machine."""
