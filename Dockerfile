# The binary and nothing else, built before by `make cross` (`make image` does
# both, and needs no other image). To mount in a container it needs the device
# and the right to mount; docs/how-to/deploy.md has the ways to run it.
FROM scratch
ARG TARGETARCH
COPY bin/linux-${TARGETARCH}/amberfs /usr/bin/amberfs
ENTRYPOINT ["/usr/bin/amberfs"]
CMD ["help"]
