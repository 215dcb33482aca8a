"""A machine with a kernel, a disk and a power switch of its own: QEMU without KVM (`make machine`)."""
