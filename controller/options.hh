#pragma once
#include "core/base/address.hh"
#include "core/rules/engine/catalog.hh"
#include "core/tree/kernel_host.hh"
#include "core/wire/settings.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::controller {

/// What the command line says.
struct Options {
    std::string trace;
    std::string run;
    std::vector<std::string> distributors;
    tree::TlsFiles tls;
    std::string results = ".";
    std::vector<std::string> servers;
    std::uint16_t server_port = 53;
    bool allow_public = false; ///< of servers and peers
    bool confirm_return_path = false;
    Settings replay;
    rules::RuleSet rules; ///< applied to the trace as it is read
    std::string generate; ///< "NAME[/TYPE]" instead of a trace
    std::uint32_t generate_sources = 1;
    bool generate_rd = false;
    std::string check; ///< "options" or "trace": look at them and play nothing; empty: play
};

/// Adds the options to a command line.
void add_options(Command& app, Options& options);

/// Reads the tables [replay], [tls] and [socket] of a TOML file into `settings`. Throws UsageError
/// with file and line.
void read_options_file(const std::string& path, Settings& settings);

/// Parses the servers: at most one of each family, at least one. Throws UsageError.
Servers parse_servers(const std::vector<std::string>& texts, std::uint16_t port);

} // namespace reprise::controller
