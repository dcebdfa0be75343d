#include "controller/options.hh"

#include "core/base/address.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/text.hh"
#include "core/base/trace_time.hh"
#include "core/rules/engine/catalog.hh"
#include "core/wire/settings.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ios>
#include <sstream>
#include <string>
#include <string_view>
#include <toml++/toml.h>
#include <type_traits>
#include <vector>

namespace reprise::controller {

using namespace std::string_view_literals;

namespace {

/// Settings that --help shows as options; the others are known to --set and --options.
constexpr std::array kShown{"source-mode"sv, "transport"sv,  "speed"sv,     "rate"sv,
                            "fast"sv,        "loop"sv,       "from"sv,      "until"sv,
                            "limit"sv,       "duration-s"sv, "timeout-s"sv, "answers"sv};

/// The first sentence of a help text, without the marks of its code.
std::string in_short(std::string_view help) {
    std::string text(help.substr(0, std::min(help.find(". "), help.find(" (`"))));
    std::erase(text, '`');
    return text;
}

void add_setting(Command& app, std::string_view table, std::string_view name, auto& value,
                 const Allowed& allowed, std::string_view help) {
    using T = std::remove_reference_t<decltype(value)>;
    std::string option = fmt::format("{}{}", table == "tls" ? "tls-" : "", name);
    std::ranges::replace(option, '_', '-');
    const std::string names = "--" + option;
    const std::string text = allowed.words.empty()
                                 ? in_short(help)
                                 : fmt::format("{}: {}", in_short(help), allowed.words);
    const bool shown = std::ranges::find(kShown, option) != kShown.end();
    const auto place = [shown](Option added) {
        return shown ? added.group("Settings (see --set)") : added.hidden();
    };
    if constexpr (std::is_same_v<T, bool>) {
        place(app.add_flag(names, value, text));
    } else if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>) {
        place(app.add_option(names, value, text)).show_default();
    } else {
        place(app.add_option(names, value, text)).delimiter(',').allow_extra_args(false);
    }
}

void add_settings(Command& app, Settings& settings) {
    app.add_option_function(
           "--options", [&](const std::string& path) { read_options_file(path, settings); },
           "TOML file with settings in the tables [replay], [tls] and [socket], named as in "
           "experiments; paths count from the working folder")
        .type_name("FILE")
        .trigger_on_parse();
    app.add_option_function(
           "--set",
           [&](const std::string& text) {
               const size_t equals = std::min(text.find('='), text.size() - 1);
               set(settings, text.substr(0, equals), text.substr(equals + 1));
           },
           "a setting, e.g. replay.hedge_ms=20 or replay.ports=53,5353; text without quotes. "
           "--options and --set count in the order given, and options with a name of their own "
           "win over both. --describe lists all settings")
        .type_name("KEY=VALUE")
        .check([](const std::string& text) {
            return text.find('=') == std::string::npos ? "give KEY=VALUE" : "";
        })
        .trigger_on_parse();
    each_setting(settings, [&app](std::string_view table, std::string_view name, auto& value,
                                  const Allowed& allowed, std::string_view help) {
        add_setting(app, table, name, value, allowed, help);
    });
}

/// A value as set() takes it. Throws UsageError where it is none of those that settings have.
std::string text_of(const toml::node& node, bool in_list = false) {
    if (const auto* list = node.as_array(); list != nullptr && !in_list) {
        std::vector<std::string> texts;
        for (const toml::node& one : *list) {
            texts.push_back(text_of(one, true));
        }
        return joined(texts, ",");
    }
    if (const auto* text = node.as_string()) {
        demand(!in_list || (!text->get().empty() && text->get().find(',') == std::string::npos),
               "a text in a list is empty or has a comma; give each value by itself");
        return text->get();
    }
    if (const auto* number = node.as_floating_point()) {
        return decimal_text(number->get());
    }
    demand(node.is_value(), "is a table or a list in a list; give a value or a list of values");
    std::ostringstream out;
    node.visit([&out](const auto& value) {
        if constexpr (toml::is_value<decltype(value)>) {
            out << std::boolalpha << value.get();
        }
    });
    return out.str();
}

void add_generator(Command& app, Options& options) {
    app.add_option("--generate", options.generate,
                   "NAME[/TYPE]: send this query again and again instead of a trace");
    app.add_option("--generate-sources", options.generate_sources,
                   "from this many source addresses in turn")
        .show_default();
    app.add_flag("--generate-rd", options.generate_rd,
                 "set the RD flag (recursion desired) in the queries of --generate");
}

} // namespace

void add_options(Command& app, Options& options) {
    app.add_option("TRACE", options.trace,
                   "capture to replay: pcap or pcapng, plain or gz, bz2, xz, zst, lz4");
    app.add_option("--run-id", options.run, "name of the run; peers of another run are refused")
        .required();
    app.add_option("--distributor", options.distributors,
                   "[NAME=]HOST:PORT of a distributor; repeat for several client hosts")
        .required()
        .allow_extra_args(false);
    app.add_option("--cert", options.tls.certificate, "own certificate, PEM").required();
    app.add_option("--key", options.tls.key, "its key, PEM").required();
    app.add_option("--ca", options.tls.authority, "certificate authority of the run, PEM")
        .required();
    app.add_option(
           "--server", options.servers,
           "address of the server under test; twice for IPv4 and IPv6. A source is skipped where "
           "the server has no address of its family")
        .required()
        .allow_extra_args(false);
    app.add_option("--server-port", options.server_port, "port of the server").show_default();
    app.add_flag("--allow-public", options.allow_public,
                 "let --server and replay.peers be public addresses: ask their operators first");
    app.add_option("--results", options.results, "folder for controller.json and sources.csv")
        .show_default();
    app.add_flag(
        "--confirm-return-path", options.confirm_return_path,
        "confirm that answers to the trace's addresses come back to the client host or are "
        "dropped by a guard, and cannot leave the testbed; needed with the source modes "
        "addresses and packet");
    app.add_option(
           "--check", options.check,
           "play nothing: look at the options, and with trace also whether there is a query "
           "in TRACE that can be played, and about how many there are")
        .one_of({"options", "trace"});
    app.add_option_function(
           "--rules", [&](const std::string& path) { rules::read_rule_file(path, options.rules); },
           "TOML file of rules, as those of reprise mutate, that change the trace as it is read; "
           "may "
           "be repeated. Rules that must see more of the trace first are refused (heavy, jitter, "
           "and shift with a share or a filter)")
        .type_name("FILE")
        .trigger_on_parse();
    add_settings(app, options.replay);
    add_generator(app, options);
}

Servers parse_servers(const std::vector<std::string>& texts, std::uint16_t port) {
    Servers servers;
    for (const std::string& text : texts) {
        const auto address = IpAddress::parse(text);
        if (!address) {
            throw UsageError(fmt::format("--server {}: not an IPv4 or IPv6 address", text));
        }
        auto& place = address->is_v4() ? servers.v4 : servers.v6;
        demand(!place,
               fmt::format("--server {}: only one address of each family can be used", text));
        place = Endpoint{.address = *address, .port = port};
    }
    return servers;
}

void read_options_file(const std::string& path, Settings& settings) {
    demand(std::filesystem::is_regular_file(path),
           fmt::format("--options {}: not a file; give a TOML file", path));
    try {
        const toml::table root = toml::parse_file(path);
        for (const auto& [table, values] : root) {
            if (!values.is_table()) {
                throw UsageError(fmt::format("{}:{}: {} is no table; settings are in [replay], "
                                             "[tls] and [socket]",
                                             path, values.source().begin.line, table.str()));
            }
            for (const auto& [name, value] : *values.as_table()) {
                try {
                    set(settings, fmt::format("{}.{}", table.str(), name.str()), text_of(value));
                } catch (const UsageError& error) {
                    throw UsageError(
                        fmt::format("{}:{}: {}", path, value.source().begin.line, error.what()));
                }
            }
        }
    } catch (const toml::parse_error& error) {
        const auto line = error.source().begin.line;
        throw UsageError(fmt::format("--options {}{}: {}", path,
                                     line == 0 ? "" : fmt::format(":{}", line),
                                     error.description()));
    }
}

} // namespace reprise::controller
