
#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/json.hh"
#include "core/dns/words.hh"
#include "core/trace/feed.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/complete.hh"
#include "zonebuilder/reconstruct/draft.hh"
#include "zonebuilder/reconstruct/hierarchy.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/reconstruct/strings.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

/// Seconds since the epoch, as a packet's time is written by the field's tools.
std::string time_text(Nanoseconds time) {
    return fmt::format("{}.{:09}", time / kSecond, time % kSecond);
}

std::string_view rank_text(Rank rank) {
    switch (rank) {
    case Rank::kAnswer:
        return "answer";
    case Rank::kChained:
        return "answer_behind_alias";
    case Rank::kAuthority:
        return "authority";
    case Rank::kReferral:
        return "referral";
    case Rank::kAdditional:
        return "additional";
    case Rank::kUnauthoritative:
        break;
    }
    return "answer_without_aa";
}

/// Writes the file's parts; lists may be long, so their entries never stand together as values.
class Writer {
public:
    explicit Writer(const BuildReport& report) : report_(report), names_(report.seen.names()) {}

    std::string write() {
        text_ = "{\"schema\":1";
        put("captures", captures());
        put("counts", counts());
        put("reader", Json(report_.counts.reader));
        list("zones", report_.completed.drafts.zones.size(),
             [&](std::size_t i) { return zone(i); });
        list("made_up", made_up());
        const Drafts& drafts = report_.completed.drafts;
        sorted_list("conflicts", drafts.conflicts, [&](const Conflict& one) { return pair(one); });
        sorted_list("versions", drafts.versions, [&](const Conflict& one) { return pair(one); });
        sorted_list("dropped", drafts.dropped, [&](const Dropped& one) { return dropped(one); });
        sorted_list("contradictions", report_.completed.contradictions,
                    [&](const Contradiction& one) { return denial(one); });
        sorted_list("distrusted", report_.hierarchy.distrusted(),
                    [&](const Distrust& one) { return distrusted(one); });
        sorted_list("lame", report_.completed.lame, [&](const LameServer& one) {
            return Json{{"zone", name(one.zone)}, {"address", address(one.server)}};
        });
        sorted_list("unasked", report_.counts.unasked, [&](const Unasked& one) {
            return Json{{"server", address(one.server)}, {"time", time_text(one.time)}};
        });
        sorted_list("failures", report_.seen.failures(),
                    [&](const Failed& one) { return failed(one); });
        list("silent", report_.counts.silent.size(),
             [&](std::size_t i) { return Json(address(report_.counts.silent[i])); });
        list("unreachable", report_.completed.unreachable.size(),
             [&](std::size_t i) { return Json(name(report_.completed.unreachable[i])); });
        list("unproven", report_.completed.unproven.size(), [&](std::size_t i) {
            const Unproven& one = report_.completed.unproven[i];
            return Json{{"zone", name(one.zone)}, {"why", one.why}};
        });
        return std::move(text_) + "\n}\n";
    }

private:
    /// With keys in order.
    static std::string text(const nlohmann::json& value) { return json_text(value); }

    void put(std::string_view key, const Json& value) {
        text_ += fmt::format(",\n\"{}\":{}", key, text(value));
    }

    template <typename Make> void list(std::string_view key, std::size_t size, Make make) {
        text_ += fmt::format(",\n\"{}\":[", key);
        for (std::size_t i = 0; i < size; ++i) {
            text_ += fmt::format("{}\n {}", i == 0 ? "" : ",", text(make(i)));
        }
        text_ += ']';
    }

    /// By their text, for what was seen first depends on the order of packets of one time.
    template <typename T, typename Make>
    void sorted_list(std::string_view key, const std::vector<T>& all, Make make) {
        std::vector<std::string> lines;
        lines.reserve(all.size());
        for (const T& one : all) {
            lines.push_back(text(make(one)));
        }
        std::ranges::sort(lines);
        text_ += fmt::format(",\n\"{}\":[", key);
        for (const std::string& line : lines) {
            text_ += fmt::format("{}\n {}", &line == lines.data() ? "" : ",", line);
        }
        text_ += ']';
    }

    void list(std::string_view key, const std::vector<std::pair<std::size_t, std::size_t>>& made) {
        list(key, made.size(), [&](std::size_t i) {
            const Draft& zone = report_.completed.drafts.zones[made[i].first];
            const DraftRrset& one = zone.rrsets[made[i].second];
            return Json{{"zone", name(zone.name)},
                        {"owner", name(one.owner)},
                        {"type", type_name(one.type)},
                        {"why", one.why}};
        });
    }

    [[nodiscard]] std::string name(NameId id) const { return names_.name(id).text(); }

    [[nodiscard]] std::string address(ServerId server) const {
        return report_.seen.address(server).text();
    }

    [[nodiscard]] Json captures() const {
        std::vector<trace::Feed::File> files = report_.counts.files;
        std::ranges::sort(files, {}, &trace::Feed::File::path);
        return list_of(files, [](const trace::Feed::File& file) {
            return Json{{"path", file.path},
                        {"form", file.end.description},
                        {"trouble", text_or_null(file.end.trouble)}};
        });
    }

    [[nodiscard]] Json counts() const {
        const CaptureCounts& counts = report_.counts;
        return {{"queries", counts.queries},
                {"answered", counts.answered},
                {"responses", counts.responses},
                {"used", counts.used},
                {"unused", counts.unused},
                {"without_query", counts.without_query},
                {"servers_over_limit", report_.hierarchy.over_limit()},
                {"rrsets_ignored", report_.seen.ignored()}};
    }

    [[nodiscard]] Json zone(std::size_t i) const {
        const Draft& zone = report_.completed.drafts.zones[i];
        const auto made = std::ranges::count_if(
            zone.rrsets, [](const DraftRrset& one) { return one.observation == kNoId; });
        const bool is_signed = std::ranges::any_of(
            zone.rrsets, [](const DraftRrset& one) { return one.signatures != kNoId; });
        return {{"name", name(zone.name)},
                {"file", report_.files[i]},
                {"addresses", list_of(report_.completed.addresses[i], &IpAddress::text)},
                {"answered", zone.seen_serving.size()},
                {"rrsets", zone.rrsets.size()},
                {"made_up", made},
                {"signed", is_signed},
                {"known_by", known_by(zone)}};
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

    [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> made_up() const {
        std::vector<std::pair<std::size_t, std::size_t>> made;
        const auto& zones = report_.completed.drafts.zones;
        for (std::size_t i = 0; i < zones.size(); ++i) {
            for (std::size_t k = 0; k < zones[i].rrsets.size(); ++k) {
                if (zones[i].rrsets[k].observation == kNoId) {
                    made.emplace_back(i, k);
                }
            }
        }
        return made;
    }

    [[nodiscard]] Json seen_at(std::uint32_t observation) const {
        const Observation& one = report_.seen.rrsets()[observation];
        return {{"server", address(one.server)},
                {"time", time_text(one.time)},
                {"from", rank_text(one.rank)},
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

    [[nodiscard]] Json distrusted(const Distrust& one) const {
        return {{"server", address(one.server)},
                {"zone", name(one.zone)},
                {"time", time_text(one.time)}};
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
    std::string text_;
};

void add_line(std::string& text, std::size_t count, std::string_view what) {
    if (count > 0) {
        text += fmt::format("  {:>7} {}\n", count, what);
    }
}

} // namespace

std::string build_json(const BuildReport& report) { return Writer(report).write(); }

std::string build_summary(const BuildReport& report) {
    const CaptureCounts& counts = report.counts;
    const Completed& completed = report.completed;
    std::map<std::string_view, std::size_t> made;
    std::size_t rrsets = 0;
    for (const Draft& zone : completed.drafts.zones) {
        rrsets += zone.rrsets.size();
        for (const DraftRrset& one : zone.rrsets) {
            if (one.observation == kNoId) {
                ++made[one.why];
            }
        }
    }
    std::string text =
        fmt::format("{} responses, {} used, to {} queries: {} zones, {} RRsets\n", counts.responses,
                    counts.used, counts.queries, completed.drafts.zones.size(), rrsets);
    for (const auto& [why, count] : counts.unused) {
        add_line(text, count, fmt::format("responses not used: {}", why));
    }
    for (const auto& [why, count] : made) {
        add_line(text, count, fmt::format("RRsets made up: {}", why));
    }
    add_line(text, completed.drafts.versions.size(), "other RRsets in the same place (versions)");
    add_line(text, completed.drafts.conflicts.size(), "CNAMEs beside other records (conflicts)");
    add_line(text, completed.drafts.dropped.size(), "RRsets in no zone (dropped)");
    add_line(text, completed.contradictions.size(), "denials of what is there (contradictions)");
    add_line(text, report.hierarchy.distrusted().size(), "claims not believed (distrusted)");
    add_line(text, completed.lame.size(), "lame servers (lame)");
    add_line(text, completed.unreachable.size(), "zones without an address (unreachable)");
    add_line(text, completed.unproven.size(), "zones whose answers cannot be validated (unproven)");
    return text;
}

} // namespace reprise::zonebuilder
