// reprise-bench-reader: reads a trace as the controller does and does nothing with it but count.
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/trace/feed.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <iostream>

namespace {

int body(int argc, char** argv) {
    if (argc != 2) {
        throw reprise::UsageError("give one trace: reprise-bench-reader FILE");
    }
    reprise::trace::Feed feed(argv[1], {});
    std::uint64_t queries = 0;
    std::uint64_t bytes = 0;
    feed.each([&](const reprise::Query& query) {
        queries += query.is_response() ? 0U : 1U;
        bytes += query.message.size();
        return true;
    });
    std::cout << R"({"queries": )" << queries << R"(, "message_bytes": )" << bytes << "}\n";
    return feed.end().trouble.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-bench-reader", body, argc, argv);
}
