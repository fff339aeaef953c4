#!/usr/bin/env bash
# The route of Docker and nitro-cli, and what nitro-cli says of our own image. UNTRIED: neither program can run where this
# project is tested. For an instance with Docker, nitro-cli and Go.
#
#   eif/nitro-cli.sh build IMAGE [FLAGS]      builds IMAGE with docker and nitro-cli build-enclave (FLAGS go to the latter, such as
#                                             --private-key and --signing-certificate), then compares
#   eif/nitro-cli.sh describe IMAGE           compares what nitro-cli describe-eif says of an image, ours say, with our computation
#
# What is compared. Of one image file, nitro-cli's measurements and ours: they must be equal. Of the enclave in the container
# and the one that scripts/enclave.sh makes: they must be the same bytes. The measurements of a nitro-cli image and of a `make eif`
# image of the same enclave are not equal and cannot be: nitro-cli adds its own init, and lays the ramdisks out in its own way.
set -euo pipefail
what=${1:-}
image=$(realpath -m "${2:?usage: eif/nitro-cli.sh build|describe IMAGE}")
shift 2
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tool() { (CGO_ENABLED=0 "${GO:-go}" build -trimpath -buildvcs=false -o "$work/cloister-eif" ./eif) && "$work/cloister-eif" "$@"; }

case $what in
build)
	docker build -f eif/Dockerfile -t cloister-enclave .
	nitro-cli build-enclave --docker-uri cloister-enclave:latest --output-file "$image" "$@" >"$work/printed"
	cat "$work/printed"
	container=$(docker create cloister-enclave:latest)
	docker cp "$container:/cloister-enclave" "$work/theirs"
	docker rm "$container" >/dev/null
	scripts/enclave.sh "$work/ours"
	cmp "$work/ours" "$work/theirs"
	echo "the enclave in the container is the one that scripts/enclave.sh makes: sha256 $(sha256sum "$work/ours" | cut -d' ' -f1)"
	tool check -nitro-cli "$work/printed" "$image"
	cp "$work/printed" "$image.nitro-cli.json"
	;;
describe)
	nitro-cli describe-eif --eif-path "$image" >"$work/printed"
	tool check -nitro-cli "$work/printed" "$image"
	;;
*)
	echo "usage: eif/nitro-cli.sh build|describe IMAGE" >&2
	exit 2
	;;
esac
