"""What can be rented, and for how much: devices, offers, prices and what a whole run costs."""
