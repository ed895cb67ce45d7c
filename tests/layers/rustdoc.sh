#!/bin/sh
# rustdoc of a stable toolchain, which may write JSON. Set for cargo as a whole, the variable would build everything again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
