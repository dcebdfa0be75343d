#include "zonebuilder/reconstruct/build.hh"

#include "core/base/error.hh"
#include "core/base/flat_ids.hh"
#include "core/base/host.hh"
#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/trace/pairs.hh"
#include "core/wire/query.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <linux/capability.h>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {

CaptureCounts observe(const std::vector<std::string>& captures,
                      const std::vector<std::uint16_t>& ports, Observations& seen) {
    CaptureCounts counts;
    trace::Feed feed(
        {.paths = captures, .reader = {.ports = ports}, .responses = trace::Responses::kWhole});
    feed.open();
    give_up({CAP_DAC_READ_SEARCH});
    ResponseReader reader(seen.names(), seen.contents());
    Response response;
    trace::AskedBefore queries;
    AddressTable asked;
    AddressTable heard;
    const auto take_response = [&](const Query& query) {
        ++counts.responses;
        heard.add(query.source.address);
        const trace::Asked known = queries.response(query);
        if (known == trace::Asked::kNo) {
            ++counts.unused["not_asked"];
            counts.unasked.push_back(
                {.server = seen.server(query.source.address), .time = query.time});
            return;
        }
        counts.without_query += known == trace::Asked::kUnknown ? 1 : 0;
        if (const auto why = reader.read(query.message, response); !why.empty()) {
            ++counts.unused[why];
            return;
        }
        ++counts.used;
        seen.add(response, seen.server(query.source.address), query.time);
    };
    Progress progress("build");
    feed.each([&](const Query& query) {
        if (query.is_response()) {
            take_response(query);
        } else {
            asked.add(query.destination.address);
            queries.query(query);
        }
        progress.tick(counts.responses);
        return true;
    });
    counts.queries = queries.queries();
    counts.answered = queries.answered();
    for (const IpAddress& address : asked.all()) {
        if (!heard.find(address)) {
            counts.silent.push_back(seen.server(address));
        }
    }
    std::ranges::sort(counts.silent, {}, [&](ServerId server) { return seen.address(server); });
    counts.files = feed.files();
    counts.reader = feed.counters();
    return counts;
}

std::string zone_text(const Draft& zone, const Observations& seen, Dnssec dnssec) {
    std::string out;
    const auto append = [&](const DraftRrset& one, const std::string& owner, std::uint16_t type,
                            ContentId content) {
        for (const std::string_view rdata : rdatas(seen.contents()[content])) {
            fmt::format_to(std::back_inserter(out), "{} {} IN {} ", owner, one.ttl,
                           type_text(type));
            if (!append_rdata(out, type, rdata)) {
                throw Error(fmt::format("a record of {} at {} cannot be written; report this",
                                        type_name(type), owner));
            }
            if (!one.why.empty()) {
                fmt::format_to(std::back_inserter(out), " ; made up: {}", one.why);
            }
            out += '\n';
        }
    };
    // Right after NS records, BIND takes records at the name of one of these servers for glue, and
    // after those of the apex it then refuses a DS record. So DS records come before.
    const auto place = [&](const DraftRrset& one) {
        const int at = one.type == kTypeSoa ? 0 : one.type == kTypeDs ? 1 : 2;
        return std::tuple(at, seen.names().key(one.owner), one.type);
    };
    std::vector<DraftRrset> ordered = zone.rrsets;
    std::ranges::sort(ordered, {}, place);
    for (const DraftRrset& one : ordered) {
        if (dnssec == Dnssec::kStrip && is_dnssec(one.type)) {
            continue;
        }
        const std::string owner = seen.names().name(one.owner).text();
        append(one, owner, one.type, one.content);
        if (dnssec == Dnssec::kKeep && one.signatures != kNoId) {
            append(one, owner, kTypeRrsig, one.signatures);
        }
    }
    return out;
}

namespace {

/// Seconds since the epoch, as a packet's time is written by the field's tools.
std::string time_text(Nanoseconds time) {
    return fmt::format("{}.{:09}", time / kSecond, time % kSecond);
}

/// Writes the files' parts; lists may be long, so their entries never stand together as values.
class Writer {
public:
    explicit Writer(const BuildReport& report) : report_(report), names_(report.seen.names()) {}

    std::string report() {
        const Drafts& drafts = report_.drafts;
        const CaptureCounts& counts = report_.counts;
        std::vector<trace::Feed::File> files = counts.files;
        std::ranges::sort(files, {}, &trace::Feed::File::path);
        put("captures", list_of(files, [](const trace::Feed::File& file) {
                return Json{{"path", file.path},
                            {"form", file.end.description},
                            {"trouble", text_or_null(file.end.trouble)}};
            }));
        put("counts", {{"queries", counts.queries},
                       {"answered", counts.answered},
                       {"responses", counts.responses},
                       {"used", counts.used},
                       {"unused", counts.unused},
                       {"without_query", counts.without_query},
                       {"servers_over_limit", report_.hierarchy.over_limit()},
                       {"rrsets_ignored", report_.seen.ignored()}});
        put("reader", Json(counts.reader));
        list("zones", lines(drafts.zones, [&](const Draft& one) { return zone(one); }));
        list("made_up", made_up());
        list("conflicts", sorted(drafts.conflicts, [&](const Conflict& one) { return pair(one); }));
        list("versions", sorted(drafts.versions, [&](const Conflict& one) { return pair(one); }));
        list("dropped", sorted(drafts.dropped, [&](const Dropped& one) { return dropped(one); }));
        list("contradictions",
             sorted(drafts.contradictions, [&](const Contradiction& one) { return denial(one); }));
        list("distrusted", sorted(report_.hierarchy.distrusted(), [&](const Distrust& one) {
                 return Json{{"server", address(one.server)},
                             {"zone", name(one.zone)},
                             {"time", time_text(one.time)}};
             }));
        list("lame", sorted(drafts.lame, [&](const LameServer& one) {
                 return Json{{"zone", name(one.zone)}, {"address", address(one.server)}};
             }));
        list("unasked", sorted(counts.unasked, [&](const Unasked& one) {
                 return Json{{"server", address(one.server)}, {"time", time_text(one.time)}};
             }));
        list("failures",
             sorted(report_.seen.failures(), [&](const Failed& one) { return failed(one); }));
        list("silent", lines(counts.silent, [&](ServerId one) { return address(one); }));
        list("unreachable", lines(drafts.unreachable, [&](NameId one) { return name(one); }));
        list("unproven", lines(drafts.unproven, [&](const Unproven& one) {
                 return Json{{"zone", name(one.zone)}, {"why", one.why}};
             }));
        return std::move(text_) + "\n}\n";
    }

    std::string zones() {
        list("zones", lines(report_.drafts.zones, [&](const Draft& one) { return placed(one); }));
        list("asked", lines(report_.drafts.refused, [](const auto& one) {
                 return Json{{"name", one.first.text()},
                             {"addresses", list_of(one.second, &IpAddress::text)}};
             }));
        return std::move(text_) + "}\n";
    }

private:
    using Lines = std::vector<std::string>;

    /// With keys in order.
    static std::string text(const nlohmann::json& value) { return json_text(value); }

    void put(std::string_view key, const Json& value) {
        text_ += fmt::format(",\n\"{}\":{}", key, text(value));
    }

    void list(std::string_view key, const Lines& all) {
        text_ += fmt::format(",\n\"{}\":[", key);
        for (const std::string& line : all) {
            text_ += fmt::format("{}\n {}", &line == all.data() ? "" : ",", line);
        }
        text_ += ']';
    }

    template <typename All, typename Make> static Lines lines(const All& all, Make make) {
        Lines made;
        made.reserve(all.size());
        for (const auto& one : all) {
            made.push_back(text(make(one)));
        }
        return made;
    }

    /// By their text, for what was seen first depends on the order of packets of one time.
    template <typename T, typename Make> static Lines sorted(const std::vector<T>& all, Make make) {
        Lines made = lines(all, make);
        std::ranges::sort(made);
        return made;
    }

    [[nodiscard]] std::string name(NameId id) const { return names_.name(id).text(); }

    [[nodiscard]] std::string address(ServerId server) const {
        return report_.seen.address(server).text();
    }

    /// A zone and who serves it.
    [[nodiscard]] Json placed(const Draft& zone) const {
        return {{"name", name(zone.name)},
                {"file", zone.file},
                {"addresses", list_of(zone.addresses, &IpAddress::text)}};
    }

    [[nodiscard]] Json zone(const Draft& zone) const {
        const auto made = std::ranges::count(zone.rrsets, kNoId, &DraftRrset::observation);
        const bool is_signed = std::ranges::any_of(
            zone.rrsets, [](const DraftRrset& one) { return one.signatures != kNoId; });
        Json json = placed(zone);
        json.update(Json{{"answered", zone.seen_serving.size()},
                         {"rrsets", zone.rrsets.size()},
                         {"made_up", made},
                         {"signed", is_signed},
                         {"known_by", known_by(zone)}});
        return json;
    }

    [[nodiscard]] Json known_by(const Draft& zone) const {
        Json list = Json::array();
        if (zone.cut == Hierarchy::kNone) {
            return list;
        }
        const Cut& cut = report_.hierarchy.cuts()[zone.cut];
        for (const auto& [is, word] :
             {std::pair(cut.delegated, "referral"), std::pair(cut.claimed, "its_servers"),
              std::pair(cut.assumed, "assumption")}) {
            if (is) {
                list.push_back(word);
            }
        }
        return list;
    }

    [[nodiscard]] Lines made_up() const {
        Lines made;
        for (const Draft& zone : report_.drafts.zones) {
            for (const DraftRrset& one : zone.rrsets) {
                if (one.observation == kNoId) {
                    made.push_back(text(Json{{"zone", name(zone.name)},
                                             {"owner", name(one.owner)},
                                             {"type", type_name(one.type)},
                                             {"why", one.why}}));
                }
            }
        }
        return made;
    }

    [[nodiscard]] Json seen_at(std::uint32_t observation) const {
        constexpr std::string_view kRanks[] = {"answer",     "answer_behind_alias",
                                               "authority",  "referral",
                                               "additional", "answer_without_aa"};
        const Observation& one = report_.seen.rrsets()[observation];
        return {{"server", address(one.server)},
                {"time", time_text(one.time)},
                {"from", kRanks[static_cast<std::size_t>(one.rank)]},
                {"count", one.count}};
    }

    [[nodiscard]] Json pair(const Conflict& one) const {
        const Observation& other = report_.seen.rrsets()[one.other];
        return {{"zone", name(one.zone)},        {"owner", name(other.owner)},
                {"type", type_name(other.type)}, {"what", one.what},
                {"kept", seen_at(one.kept)},     {"other", seen_at(one.other)}};
    }

    [[nodiscard]] Json dropped(const Dropped& one) const {
        const Observation& what = report_.seen.rrsets()[one.observation];
        Json json{{"owner", name(what.owner)}, {"type", type_name(what.type)}, {"why", one.why}};
        json.update(seen_at(one.observation));
        return json;
    }

    [[nodiscard]] Json denial(const Contradiction& one) const {
        const Denial& what = report_.seen.denials()[one.denial];
        return {{"zone", name(one.zone)},
                {"owner", name(what.name)},
                {"denied", what.type == 0 ? "name" : type_name(what.type)},
                {"server", address(what.server)},
                {"time", time_text(what.time)}};
    }

    [[nodiscard]] Json failed(const Failed& one) const {
        constexpr std::string_view kWhy[] = {"rcode", "upward_referral", "without_aa", "empty",
                                             "denies_its_zone"};
        Json json{{"server", address(one.server)},
                  {"name", name(one.name)},
                  {"why", kWhy[static_cast<std::size_t>(one.why)]},
                  {"time", time_text(one.time)}};
        if (one.why == Failure::kRcode) {
            json["rcode"] = rcode_name(one.rcode);
        }
        return json;
    }

    const BuildReport& report_;
    const NameTable& names_;
    std::string text_ = "{\"schema\":1";
};

void add_line(std::string& text, std::size_t count, std::string_view what) {
    if (count > 0) {
        text += fmt::format("  {:>7} {}\n", count, what);
    }
}

} // namespace

std::string build_json(const BuildReport& report) { return Writer(report).report(); }

std::string zones_json(const BuildReport& report) { return Writer(report).zones(); }

std::string build_summary(const BuildReport& report) {
    const CaptureCounts& counts = report.counts;
    const Drafts& drafts = report.drafts;
    std::map<std::string_view, std::size_t> made;
    std::size_t rrsets = 0;
    for (const Draft& zone : drafts.zones) {
        rrsets += zone.rrsets.size();
        for (const DraftRrset& one : zone.rrsets) {
            if (one.observation == kNoId) {
                ++made[one.why];
            }
        }
    }
    std::string text =
        fmt::format("{} responses, {} used, to {} queries: {} zones, {} RRsets\n", counts.responses,
                    counts.used, counts.queries, drafts.zones.size(), rrsets);
    for (const auto& [why, count] : counts.unused) {
        add_line(text, count, fmt::format("responses not used: {}", why));
    }
    for (const auto& [why, count] : made) {
        add_line(text, count, fmt::format("RRsets made up: {}", why));
    }
    add_line(text, drafts.versions.size(), "other RRsets in the same place (versions)");
    add_line(text, drafts.conflicts.size(), "CNAMEs beside other records (conflicts)");
    add_line(text, drafts.dropped.size(), "RRsets in no zone (dropped)");
    add_line(text, drafts.contradictions.size(), "denials of what is there (contradictions)");
    add_line(text, report.hierarchy.distrusted().size(), "claims not believed (distrusted)");
    add_line(text, drafts.lame.size(), "lame servers (lame)");
    add_line(text, drafts.unreachable.size(), "zones without an address (unreachable)");
    add_line(text, drafts.unproven.size(), "zones whose answers cannot be validated (unproven)");
    return text;
}

} // namespace reprise::zonebuilder
