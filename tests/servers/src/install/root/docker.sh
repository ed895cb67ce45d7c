# Fills $1 with the files of the Docker image $2, but for devices: those of the machine are mounted.
making=$1 image=$2
mkdir -p "$making/dev" "$making/proc"
container=$(docker create "$image")
trap 'docker rm "$container"' EXIT
docker export "$container" |
    tar --extract --no-same-owner --directory "$making" --anchored --exclude='dev/*' --exclude='./dev/*'
