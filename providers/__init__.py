"""How a vendor is asked: one folder per vendor behind one seam."""
