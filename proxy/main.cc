// reprise-proxy: `resolver` and `meta` rewrite addresses on either side, `delay` only delays,
// `stateless` answers DNS over TCP beside a server.
#include "core/base/log.hh"
#include "proxy/process.hh"

int main(int argc, char** argv) {
    return reprise::run_main("reprise-proxy", reprise::proxy::run, argc, argv);
}
