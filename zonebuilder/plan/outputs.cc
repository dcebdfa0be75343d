// The texts that resolvers and data paths read. What servers read is made of plan.json.

#include "core/base/address.hh"
#include "core/base/json.hh"
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {
namespace {

constexpr std::string_view kMade =
    "made by reprise-zonebuilder plan; changes are lost with the next plan";

std::string text_or_dash(const std::optional<IpAddress>& address) {
    return address ? address->text() : "-";
}

std::string base64(std::string_view data) {
    std::string text((data.size() + 2) / 3 * 4 + 1, '\0'); // with an end that is taken off
    text.resize(static_cast<std::size_t>(EVP_EncodeBlock(
        reinterpret_cast<unsigned char*>(text.data()),                            // NOLINT
        reinterpret_cast<const unsigned char*>(data.data()), int(data.size())))); // NOLINT
    return text;
}

/// Lame delegations of zones that are here, or delegations to zones that are not.
Json lame_json(const Plan& plan, bool built) {
    Json list = Json::array();
    for (const Lame& one : plan.lame) {
        if (one.built == built) {
            list.push_back({{"zone", one.zone.text()},
                            {"parent", one.parent.text()},
                            {"server", one.server.text()},
                            {"address", one.address.text()}});
        }
    }
    return list;
}

Json trusted_json(const Plan& plan, const std::vector<Zone>& zones) {
    return list_of(plan.trusted, [&](const Trusted& trusted) {
        const Zone& zone = zones[trusted.zone];
        Json one{{"zone", zone.name.text()}, {"file", zone.file}};
        if (!trusted.why.empty()) {
            one["unproven"] = trusted.why;
        }
        if (const auto& signatures = zone.signatures) {
            one["from"] = signatures->from;
            one["until"] = signatures->until;
        }
        return one;
    });
}

std::size_t address_count(const Plan& plan) {
    const auto add = [](std::size_t sum, const Group& one) { return sum + one.addresses.size(); };
    return std::accumulate(plan.groups.begin(), plan.groups.end(), std::size_t{0}, add);
}

std::size_t out_of_zone(const std::vector<Zone>& zones) {
    const auto add = [](std::size_t sum, const Zone& zone) { return sum + zone.out_of_zone; };
    return std::accumulate(zones.begin(), zones.end(), std::size_t{0}, add);
}

std::size_t lame_zones(const Plan& plan, bool built) {
    std::set<std::string> names;
    for (const Lame& one : plan.lame) {
        if (one.built == built) {
            names.insert(one.zone.key());
        }
    }
    return names.size();
}

/// Packets go between addresses of one family.
bool can_start(const Resolver& resolver, const Plan& plan) {
    return std::ranges::any_of(plan.root_servers, [&](const RootServer& server) {
        return std::ranges::any_of(server.addresses, [&](const IpAddress& address) {
            return (address.is_v4() ? resolver.v4 : resolver.v6).has_value();
        });
    });
}

void add_trouble(std::string& text, std::size_t count, std::string_view what) {
    if (count > 0) {
        text += fmt::format("  {:>7} {}\n", count, what);
    }
}

std::string_view name_of(Form form) {
    return form == Form::kPaper ? "paper" : form == Form::kSeparate ? "separate" : "colored";
}

} // namespace

std::string map_text(const Plan& plan, const PlanSettings& settings) {
    std::string text = "#reprise-map 1\n";
    auto out = std::back_inserter(text);
    for (std::size_t i = 0; i < settings.resolvers.size(); ++i) {
        fmt::format_to(out, "resolver\t{}\t{}\t{}\n", i + 1, text_or_dash(settings.resolvers[i].v4),
                       text_or_dash(settings.resolvers[i].v6));
    }
    for (const MetaAddress& meta : plan.meta) {
        fmt::format_to(out, "meta\t{}\t{}\t{}\t{}\t{}\n", meta.slot + 1, meta.resolver + 1,
                       plan.slots[meta.slot].instance + 1, meta.v4.text(), meta.v6.text());
    }
    for (const Group& group : plan.groups) {
        for (const IpAddress& address : group.addresses) {
            fmt::format_to(out, "oqda\t{}\t{}\n", address.text(), group.slot + 1);
        }
    }
    return text;
}

std::string root_hints(const Plan& plan) {
    if (plan.root_servers.empty()) {
        return "; there is no root zone\n";
    }
    std::string text = fmt::format("; {}\n", kMade);
    auto out = std::back_inserter(text);
    for (const RootServer& server : plan.root_servers) {
        if (server.addresses.empty()) {
            continue; // a hint without an address leads nowhere
        }
        fmt::format_to(out, ". {} IN NS {}\n", server.ttl, server.name.text());
        for (const IpAddress& address : server.addresses) {
            fmt::format_to(out, "{} {} IN {} {}\n", server.name.text(), server.ttl,
                           address.is_v4() ? "A" : "AAAA", address.text());
        }
    }
    return text;
}

std::string root_key(const Plan& plan) {
    std::string text;
    for (const TrustAnchor& anchor : plan.anchors) {
        const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(anchor.rdata[i]); };
        text += fmt::format(". {} IN DNSKEY {} {} {} {}\n", anchor.ttl, byte(0) << 8U | byte(1),
                            byte(2), byte(3), base64(std::string_view(anchor.rdata).substr(4)));
    }
    return text;
}

// The plan for programs (plan.json) and for people. Lists are in the order of the plan, which is
// that of the sorted zones, so that two reports can be compared line by line.

std::string plan_json(const Plan& plan, const PlanSettings& settings,
                      const std::vector<Zone>& zones, const std::vector<BadZone>& failed) {
    const auto names = [&](const std::vector<ZoneIndex>& of) {
        return list_of(of, [&](ZoneIndex zone) { return zones[zone].name.text(); });
    };
    const auto files = [&](const std::vector<ZoneIndex>& of) {
        return list_of(of, [&](ZoneIndex zone) { return zones[zone].file; });
    };
    const auto group = [&](const Group& one) {
        return Json{{"addresses", list_of(one.addresses, &IpAddress::text)},
                    {"zones", names(one.zones)},
                    {"files", files(one.zones)},
                    {"slot", one.slot + 1}};
    };
    const auto slot = [&, number = std::size_t{0}](const Slot& one) mutable { // what a server loads
        return Json{{"slot", ++number},          {"instance", one.instance + 1},
                    {"color", one.color + 1},    {"zones", one.zones.size()},
                    {"names", names(one.zones)}, {"files", files(one.zones)}};
    };
    const auto unroutable = [&](const auto& one) {
        const auto& [address, about] = one;
        return Json{{"address", address.text()}, {"why", about.why}, {"zones", names(about.zones)}};
    };
    const auto unserved = [&](const Unserved& one) {
        return Json{{"zone", zones[one.zone].name.text()}, {"why", one.why}};
    };
    const auto bad = [](const BadZone& one) {
        return Json{{"zone", one.name}, {"file", one.file}, {"line", one.line}, {"why", one.why}};
    };
    const Json json{{"schema", 1},
                    {"engine", settings.engine == Engine::kBind ? "bind" : "nsd"},
                    {"form", name_of(settings.form)},
                    {"instances", settings.instances},
                    {"zones", zones.size()},
                    {"addresses", address_count(plan)},
                    {"groups", list_of(plan.groups, group)},
                    {"colors", plan.colors},
                    {"edges", plan.edges.size()},
                    {"slots", list_of(plan.slots, slot)},
                    {"root_addresses_added", plan.root_addresses},
                    {"unroutable", list_of(plan.unroutable, unroutable)},
                    {"lame", lame_json(plan, true)},
                    {"not_built", lame_json(plan, false)},
                    {"trusted", trusted_json(plan, zones)},
                    {"unserved", list_of(plan.unserved, unserved)},
                    {"failed", list_of(failed, bad)},
                    {"out_of_zone_records", out_of_zone(zones)},
                    {"seconds", plan.seconds}};
    return json_text(by_key(json), 1) + "\n";
}

std::string summary_text(const Plan& plan, const PlanSettings& settings,
                         const std::vector<Zone>& zones, const std::vector<BadZone>& failed) {
    std::string text = fmt::format(
        "{} zones on {} addresses in {} groups; {} conflicts, {} colors; {} form: {} "
        "{} in {} {}\n",
        zones.size(), address_count(plan), plan.groups.size(), plan.edges.size(), plan.colors,
        name_of(settings.form), plan.slots.size(), plan.slots.size() == 1 ? "slot" : "slots",
        settings.instances, settings.instances == 1 ? "instance" : "instances");
    add_trouble(text, plan.root_addresses,
                "addresses of the Internet's root servers lead to the root");
    add_trouble(text, failed.size(), "zones do not load (failed in plan.json)");
    add_trouble(text, plan.unserved.size(), "zones that no server has (unserved)");
    add_trouble(text, plan.unroutable.size(), "addresses that cannot be routed (unroutable)");
    add_trouble(text, lame_zones(plan, true), "zones with lame delegations (lame)");
    add_trouble(text, lame_zones(plan, false), "delegated zones that are not here (not_built)");
    add_trouble(text, out_of_zone(zones), "records outside their zone, left out");
    if (plan.root_servers.empty()) {
        text += "  warning root zone missing: no hints, so resolvers cannot start\n";
    }
    for (std::size_t i = 0; i < settings.resolvers.size(); ++i) {
        if (!plan.root_servers.empty() && !can_start(settings.resolvers[i], plan)) {
            text += fmt::format("  warning resolver {} has no address of the family of any root "
                                "server: it cannot start\n",
                                i + 1);
        }
    }
    if (plan.root_keys_unsigned) {
        text += "  warning root has keys but no signatures: nothing can be validated\n";
    }
    return text;
}

} // namespace reprise::zonebuilder
