#include "core/base/bytes.hh"
#include "core/base/capabilities.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/hex.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/trace/pairs.hh"
#include "core/wire/query.hh"
#include "zonebuilder/commands.hh"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <linux/capability.h>
#include <string>

namespace reprise::zonebuilder {

void add_exchanges_command(Command& app, ExchangesOptions& options) {
    Command command = app.add_subcommand(
        "exchanges", "Responses of captures with their queries, a line each, for programs");
    command.add_option("CAPTURE", options.captures, "Captures, of any form that Reprise reads")
        .required();
    command.add_option("--port", options.ports, "Port of name servers; may be repeated")
        .expected(1)
        .take_all();
    command.footer(
        "Columns, with tabs between: seconds since 1970, the server's address, udp, tcp or another "
        "transport,\nthe query and the response in hexadecimal. Responses to what was not asked "
        "are left out; without a query\nin the capture, - stands for it.\n"
        "Exit status: 0 done; 1 a capture cannot be read; 2 usage.");
}

int run_exchanges(const ExchangesOptions& options) {
    trace::Feed feed({.paths = options.captures,
                      .reader = {.ports = options.ports},
                      .responses = trace::Responses::kWhole});
    feed.open();
    give_up({CAP_DAC_READ_SEARCH});
    trace::AskedBefore queries(true);
    feed.each([&](const Query& query) {
        if (!query.is_response()) {
            queries.query(query);
            return true;
        }
        const trace::Asked asked = queries.response(query);
        if (asked == trace::Asked::kNo) {
            return true;
        }
        std::string line =
            fmt::format("{}.{:09}\t{}\t{}\t", query.time / kSecond, query.time % kSecond,
                        query.source.address.text(), transport_name(query.transport));
        if (asked == trace::Asked::kYes) {
            append_hex(line, bytes_of(queries.query_of(query)));
        } else {
            line += '-';
        }
        line += '\t';
        append_hex(line, query.message);
        fmt::print("{}\n", line);
        return true;
    });
    if (std::fflush(stdout) != 0) {
        throw Error(fmt::format("cannot write to standard output: {}; make room, or read all of it",
                                std::strerror(errno)));
    }
    return 0;
}

} // namespace reprise::zonebuilder
