// reprise-bench-reader: reads a trace as the controller does and does nothing with it but count.
#include "core/trace/reader.hh"

#include "core/base/error.hh"
#include "core/base/log.hh"

#include <cstdint>
#include <iostream>

namespace {

int body(int argc, char** argv) {
    if (argc != 2) {
        throw reprise::UsageError("give one trace: reprise-bench-reader FILE");
    }
    reprise::trace::Reader reader(argv[1]);
    reprise::Query query;
    std::uint64_t queries = 0;
    std::uint64_t bytes = 0;
    while (reader.next(query)) {
        queries += query.is_response() ? 0U : 1U;
        bytes += query.message.size();
    }
    std::cout << R"({"queries": )" << queries << R"(, "message_bytes": )" << bytes << "}\n";
    return reader.trouble().empty() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-bench-reader", body, argc, argv);
}
