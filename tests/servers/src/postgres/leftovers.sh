# The interlock of the data folder outlives a killed server, and the kernel has room for only
# 4,096 of its kind. Its id is the second number of the seventh line.
ipcrm --shmem-id "$(sed -n '7s/.* //p' "$HOME/data/postmaster.pid")"
