"""Fitting: from records to the few parameters of a kernel on a device, with intervals. The one home of scipy here."""
