# Fills $1 with the files of the Docker image $2.
making=$1 image=$2
mkdir "$making"
container=$(docker create "$image")
trap 'docker rm "$container"' EXIT
docker export "$container" | tar --extract --no-same-owner --directory "$making"
