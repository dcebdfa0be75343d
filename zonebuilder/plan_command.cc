#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/json.hh"
#include "zonebuilder/commands.hh"
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

constexpr std::string_view kDefaultResolver = "198.19.254.1,fd00:198:19:fe::1";
constexpr unsigned kMostInstances = 1000;

Prefix parse_prefix(std::string_view option, const std::string& text, int family) {
    const auto prefix = Prefix::parse_network(text);
    if (!prefix || (family != 0 && prefix->address.family != family)) {
        throw UsageError(fmt::format("{} {} is not an IPv{} prefix; give one like {}", option, text,
                                     family == 0   ? "4 or IPv6"
                                     : family == 4 ? "4"
                                                   : "6",
                                     family == 6 ? "fd00:198:18::/48" : "198.18.128.0/17"));
    }
    return *prefix;
}

/// "ADDR4", "ADDR6" or "ADDR4,ADDR6".
Resolver parse_resolver(const std::string& text) {
    Resolver resolver;
    for (std::string_view rest = text; !rest.empty();) {
        const auto comma = std::min(rest.find(','), rest.size());
        const auto address = IpAddress::parse(rest.substr(0, comma));
        auto* place = address && address->is_v4() ? &resolver.v4 : &resolver.v6;
        if (!address || *place) {
            throw UsageError(fmt::format("--resolver {} is not ADDR4[,ADDR6]; give at most one "
                                         "address of each family",
                                         text));
        }
        *place = address;
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    if (!resolver.v4 && !resolver.v6) {
        throw UsageError("--resolver is empty; give ADDR4[,ADDR6]");
    }
    return resolver;
}

/// Meta addresses tell resolvers apart, but nft maps and routes know them by their own addresses:
/// so these must differ.
std::vector<Resolver> parse_resolvers(std::vector<std::string> texts) {
    if (texts.empty()) {
        texts.emplace_back(kDefaultResolver);
    }
    std::vector<Resolver> resolvers;
    std::set<IpAddress> seen;
    for (const std::string& text : texts) {
        resolvers.push_back(parse_resolver(text));
        for (const auto& address : {resolvers.back().v4, resolvers.back().v6}) {
            if (address && !seen.insert(*address).second) {
                throw UsageError(fmt::format("--resolver {} is given twice; resolvers have "
                                             "addresses of their own",
                                             address->text()));
            }
        }
    }
    return resolvers;
}

/// Meta addresses are sent to, and answers come back from them to the resolvers.
void check_meta(std::string_view option, const Prefix& meta,
                const std::vector<Resolver>& resolvers) {
    if (const auto why = why_unroutable(meta.address, {})) {
        throw UsageError(fmt::format("{} {} is {}; give a prefix that can be routed", option,
                                     meta.text(), *why));
    }
    for (const Resolver& resolver : resolvers) {
        for (const auto& address : {resolver.v4, resolver.v6}) {
            if (address && meta.holds(*address)) {
                throw UsageError(fmt::format("{} {} holds the address {} of a resolver; give "
                                             "prefixes apart",
                                             option, meta.text(), address->text()));
            }
        }
    }
}

/// One line, so only the first ones; --skip-bad writes all of them into plan.json.
[[noreturn]] void refuse_bad(const std::vector<BadZone>& bad) {
    constexpr std::size_t kShown = 5;
    std::string list;
    for (std::size_t i = 0; i < std::min(bad.size(), kShown); ++i) {
        const std::string line = bad[i].line > 0 ? fmt::format(" line {}", bad[i].line) : "";
        list += fmt::format("{}{}{}: {}", i == 0 ? "" : ", ", bad[i].file, line, bad[i].why);
    }
    const std::string more =
        bad.size() > kShown ? fmt::format(", and {} more", bad.size() - kShown) : "";
    throw Error(fmt::format("{} {} not load: {}{}; fix them, or --skip-bad keeps the rest",
                            bad.size(), bad.size() == 1 ? "zone does" : "zones do", list, more));
}

/// NSD refuses a whole zone for one record that BIND only leaves out.
std::string why_not_nsd(const Zone& zone) {
    if (zone.out_of_zone > 0) {
        return fmt::format("NSD refuses it for {} records outside the zone", zone.out_of_zone);
    }
    if (zone.below_dname > 0) {
        return fmt::format("NSD refuses it for {} records below a DNAME", zone.below_dname);
    }
    return zone.file.find('%') != std::string::npos
               ? "NSD takes % in a file's name for a pattern; rename it"
               : "";
}

std::vector<BadZone> bad_for_nsd(const std::vector<Zone>& zones) {
    std::vector<BadZone> bad;
    for (const Zone& zone : zones) {
        if (std::string why = why_not_nsd(zone); !why.empty()) {
            bad.push_back({zone.name.text(), zone.file, 0, std::move(why)});
        }
    }
    return bad;
}

/// Zones that the server itself did not load; `path` has a JSON list of them, with the fields of
/// BadZone.
std::vector<BadZone> refused_zones(const std::string& path) {
    std::vector<BadZone> refused;
    try {
        std::ifstream file(path);
        for (const Json& one : Json::parse(file)) {
            refused.push_back({.name = one.at("zone"),
                               .file = one.at("file"),
                               .line = one.at("line"),
                               .why = one.at("why")});
        }
    } catch (const Json::exception& error) {
        throw UsageError(fmt::format("--refused {} cannot be read: {}; give a list of zone, file, "
                                     "line and why",
                                     path, error.what()));
    }
    return refused;
}

/// Takes out the zones that a list names.
void reject(LoadedZones& loaded, const std::vector<BadZone>& bad) {
    std::map<std::pair<std::string_view, std::string_view>, const BadZone*> named;
    for (const BadZone& one : bad) {
        named[{one.file, one.name}] = &one;
    }
    std::erase_if(loaded.zones, [&](const Zone& zone) {
        const auto found = named.empty() ? named.end() : named.find({zone.file, zone.name.text()});
        if (found != named.end()) {
            loaded.bad.push_back(*found->second);
        }
        return found != named.end();
    });
}

/// All zones that can be planned. Throws Error that lists the others, unless they are to be left
/// out.
LoadedZones read_zones(const PlanOptions& options, const std::vector<ZoneEntry>& entries,
                       Engine engine) {
    LoadedZones loaded = load_zones(options.folder, entries);
    if (engine == Engine::kNsd) {
        reject(loaded, bad_for_nsd(loaded.zones));
    }
    if (!options.refused.empty()) {
        reject(loaded, refused_zones(options.refused));
    }
    // Of zones that claim what others have, the first in the order of files stays: which one is
    // right cannot be known, and a plan is to repeat.
    reject(loaded, contradictions(loaded.zones, AddressBook(loaded.zones)));
    if (!loaded.bad.empty() && (!options.skip_bad || loaded.zones.empty())) {
        refuse_bad(loaded.bad);
    }
    return loaded;
}

/// Of /proc/meminfo; no limit where that has no such line.
std::uint64_t available_memory() {
    std::ifstream file("/proc/meminfo");
    for (std::string word; file >> word;) {
        std::uint64_t kib = 0;
        if (word == "MemAvailable:" && file >> kib) {
            return kib * 1024;
        }
    }
    return UINT64_MAX;
}

double seconds_since(Nanoseconds start) {
    return static_cast<double>(SteadyClock::now() - start) / static_cast<double>(kSecond);
}

} // namespace

void add_plan_command(Command& app, int& status) {
    const auto held = std::make_shared<PlanOptions>();
    PlanOptions& options = *held;
    Command command = app.add_subcommand(
        "plan",
        "From zones and who serves them: views or server instances, and the map of addresses");
    command.add_option("DIR", options.folder, "Folder of zone files, with or without zones.json")
        .required();
    command.add_option("-o,--output", options.output, "Folder to write into").required();
    command.add_choice("--engine", options.settings.engine,
                       {{"bind", Engine::kBind}, {"nsd", Engine::kNsd}},
                       "Server: bind (default) or nsd");
    command.add_choice(
        "--form", options.settings.form,
        {{"colored", Form::kColored}, {"paper", Form::kPaper}, {"separate", Form::kSeparate}},
        "colored (default): few views, chosen by destination; paper: a view for each "
        "group of addresses, chosen by client; separate: the same, chosen by "
        "destination");
    command
        .add_option("--instances", options.settings.instances,
                    "Meta-DNS-servers to deal the zones to")
        .in_range(1U, kMostInstances)
        .show_default();
    command
        .add_option("--resolver", options.resolvers,
                    "ADDR4[,ADDR6] that a resolver asks from; may be repeated (default " +
                        std::string(kDefaultResolver) + ")")
        .expected(1)
        .take_all();
    command.add_option("--meta4", options.meta4, "Prefix of IPv4 meta addresses").show_default();
    command.add_option("--meta6", options.meta6, "Prefix of IPv6 meta addresses").show_default();
    command
        .add_option(
            "--reserved", options.reserved,
            "Prefix of the testbed, which no name server's address may lie in; may be repeated")
        .expected(1)
        .take_all();
    command.add_option("--refused", options.refused,
                       "JSON list of zones (zone, file, line, why) that the server does not load");
    command.add_flag("--skip-bad", options.skip_bad, "Leave out zones that do not load");
    command.add_flag("--no-historic-roots", options.no_historic_roots,
                     "Do not lead the Internet's root servers' addresses, of today and of former "
                     "times, to the root zone");
    command.footer(
        "Writes plan.json (the report, and what servers load), map.tsv (for the data paths), "
        "root.hints and\nroot.key. Zones are the *.zone files of DIR, or what DIR/zones.json lists "
        "with the addresses that serve it;\nwithout addresses those of the zone's NS records, its "
        "own and its parent's, are taken.\nExit status: 0 done; 1 zones do not load, or nothing "
        "can be served; 2 usage.\n\n"
        "Example: reprise-zonebuilder plan zones -o plan");
    command.callback([held, &status] { status = run_plan(*held); });
}

PlanSettings plan_settings(const PlanOptions& options) {
    PlanSettings settings = options.settings;
    settings.resolvers = parse_resolvers(options.resolvers);
    settings.meta4 = parse_prefix("--meta4", options.meta4, 4);
    settings.meta6 = parse_prefix("--meta6", options.meta6, 6);
    settings.root_addresses = !options.no_historic_roots;
    for (const std::string& text : options.reserved) {
        settings.reserved.push_back(
            {parse_prefix("--reserved", text, 0), "reserved for the testbed"});
    }
    if (settings.engine == Engine::kNsd && settings.form == Form::kPaper) {
        throw UsageError("--engine nsd has no views to choose by client; use --form colored or "
                         "separate, or --engine bind");
    }
    check_meta("--meta4", settings.meta4, settings.resolvers);
    check_meta("--meta6", settings.meta6, settings.resolvers);
    return settings;
}

void check_memory(const Plan& plan, const PlanSettings& settings, std::uint64_t available) {
    constexpr std::uint64_t kViewBytes = 9'400'000; ///< of BIND 9.18, whatever zones are in it
    const std::size_t views =
        settings.form == Form::kPaper ? plan.groups.size() : plan.slots.size();
    const std::uint64_t needed = views * kViewBytes;
    if (settings.engine == Engine::kBind && needed > available) {
        constexpr std::uint64_t kGigabyte = 1'000'000'000;
        throw Error(fmt::format("{} views of BIND need about {} GB of memory, and this host has {} "
                                "GB available; {}",
                                views, needed / kGigabyte, available / kGigabyte,
                                settings.form == Form::kColored
                                    ? "use a host with more memory, or fewer zones"
                                    : fmt::format("use --form colored, which needs {}",
                                                  plan.colors * settings.instances)));
    }
}

int run_plan(const PlanOptions& options) {
    const Nanoseconds start = SteadyClock::now();
    const PlanSettings settings = plan_settings(options);
    const ZoneList list = list_zones(options.folder);
    const LoadedZones loaded = read_zones(options, list.zones, settings.engine);
    const double reading = seconds_since(start);
    Plan plan = make_plan(loaded.zones, settings, list.asked);
    plan.seconds["read"] = reading;
    check_memory(plan, settings, available_memory());
    const Nanoseconds planned = SteadyClock::now();
    const OutputFolder output(options.output, "plan.json");
    output.write("map.tsv", map_text(plan, settings));
    output.write("root.hints", root_hints(plan));
    output.write("root.key", root_key(plan));
    plan.seconds["write"] = seconds_since(planned);
    plan.seconds["total"] = seconds_since(start);
    output.write("plan.json", plan_json(plan, settings, loaded.zones, loaded.bad));
    fmt::print("{}", summary_text(plan, settings, loaded.zones, loaded.bad));
    flush_output("the summary to standard output", "the plan is whole");
    return 0;
}

} // namespace reprise::zonebuilder
