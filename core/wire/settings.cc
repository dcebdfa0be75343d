#include "core/wire/settings.hh"

#include "core/base/error.hh"
#include "core/base/json.hh"
#include "core/base/text.hh"
#include "core/base/trace_time.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise {
namespace {

constexpr std::uint32_t kMostEarlyUs = 1000; // longer ones would hide a broken timer

template <typename T> constexpr bool kIsList = false;
template <typename T> constexpr bool kIsList<std::vector<T>> = true;

std::string key_of(std::string_view table, std::string_view name) {
    return fmt::format("{}.{}", table, name);
}

template <typename T> bool read(const std::string& text, T& value) {
    bool good = true;
    if constexpr (kIsList<T>) {
        value.clear();
        for (size_t at = 0; at < text.size();) {
            const size_t comma = std::min(text.find(',', at), text.size());
            good = read(text.substr(at, comma - at), value.emplace_back()) && good;
            at = comma + 1;
        }
    } else if constexpr (std::is_same_v<T, std::string>) {
        value = text;
    } else if constexpr (std::is_same_v<T, bool>) {
        value = text == "true";
        good = value || text == "false";
    } else {
        good = parse_number(text, value);
    }
    return good;
}

template <typename T> std::string text_of(const T& value) {
    if constexpr (kIsList<T>) {
        std::vector<std::string> texts;
        texts.reserve(value.size());
        for (const auto& one : value) {
            texts.push_back(text_of(one));
        }
        return joined(texts, ",");
    } else {
        return fmt::format("{}", value);
    }
}

/// `words`: with commas between them.
bool is_among(std::string_view word, std::string_view words) {
    const auto list = [](std::string_view text) { return fmt::format(", {}, ", text); };
    return word.find(',') == std::string_view::npos &&
           list(words).find(list(word)) != std::string::npos;
}

template <typename T>
void check_range(const std::string& key, const T& value, const Allowed& allowed) {
    if constexpr (kIsList<T>) {
        for (const auto& one : value) {
            check_range(key, one, allowed);
        }
    } else if constexpr (std::is_arithmetic_v<T>) {
        const auto number = static_cast<double>(value);
        demand(allowed.high == 0 || (number >= allowed.low && number <= allowed.high),
               fmt::format("{} {}: give {} to {:.17g}", key, value, allowed.low, allowed.high));
    } else if (!allowed.words.empty()) {
        demand(is_among(value, allowed.words),
               fmt::format("{} {}: give one of {}", key, value, allowed.words));
    }
}

void check_moment(const std::string& text, const char* key) {
    demand(text.empty() || TraceTime::parse(text),
           fmt::format("{} {}: not a time in the trace; give seconds from the trace's first query, "
                       "seconds since the epoch or RFC 3339 like 2016-10-06T13:55:51.5Z",
                       key, text));
}

void check_times(const Settings& settings) {
    demand(int{settings.speed != 1} + int{settings.rate > 0} + int{settings.fast} <= 1,
           "replay.speed, replay.rate and replay.fast exclude each other; give one of them");
    demand(settings.rate == 0 || settings.rate >= 0.001,
           fmt::format("replay.rate {}: give 0, or 0.001 to 100000000 queries per second",
                       settings.rate));
    check_moment(settings.from, "replay.from");
    check_moment(settings.until, "replay.until");
    const auto from = TraceTime::parse(settings.from);
    const auto until = TraceTime::parse(settings.until);
    demand(!from || !until || from->absolute != until->absolute || from->value < until->value,
           fmt::format("replay.from {} is not before replay.until {}; give an earlier replay.from "
                       "or a later replay.until",
                       settings.from, settings.until));
    demand(settings.loop > 0 || settings.limit > 0 || settings.duration_s > 0,
           "replay.loop 0 never ends; give replay.limit or replay.duration_s as well");
    demand(
        settings.early_us == "auto" ||
            parse_number<std::uint32_t>(settings.early_us).value_or(kMostEarlyUs + 1) <=
                kMostEarlyUs,
        fmt::format("replay.early_us {}: give auto or 0 to {}", settings.early_us, kMostEarlyUs));
}

void check_hedge(const Settings& settings) {
    const size_t peers = peers_of(settings, kDnsPort).size();
    demand(peers <= kMostPeers,
           fmt::format("replay.peers: {} peers given; give at most {}", peers, kMostPeers));
    demand(settings.hedge_ms < settings.timeout_s * 1e3,
           fmt::format("replay.hedge_ms {}: must be below replay.timeout_s; give less",
                       settings.hedge_ms));
    demand((settings.hedge_ms > 0) == (peers > 0),
           "replay.hedge_ms and replay.peers need each other; give both");
    demand(!settings.tcp_fallback || settings.hedge_ms == 0,
           "replay.tcp_fallback and replay.hedge_ms exclude each other; give one of them");
    demand(!settings.tcp_after_timeout || settings.hedge_ms == 0,
           "replay.tcp_after_timeout and replay.hedge_ms exclude each other; give one of them");
}

/// A host name as certificates have it (RFC 9525 section 2.2).
bool is_host_name(const std::string& text) {
    constexpr size_t kLongestName = 253;
    const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    };
    return text.size() <= kLongestName && std::ranges::all_of(text, fits) &&
           !text.starts_with('.') && !IpAddress::parse(text);
}

void check_tls(const TlsSettings& tls) {
    demand(tls.name.empty() || is_host_name(tls.name),
           fmt::format("tls.name {}: not a host name, e.g. server.example; leave it out to verify "
                       "the server's address",
                       tls.name));
    demand(!tls.early_data || tls.resume, "tls.early_data needs tls.resume; give both, or neither");
    demand(!tls.early_data || tls.version != "1.2",
           "tls.early_data needs TLS 1.3; leave out tls.version 1.2");
}

template <typename T> std::string_view type_of(const T&, const Allowed& allowed) {
    if (!allowed.form.empty()) {
        return allowed.form;
    }
    if constexpr (kIsList<T>) {
        return std::is_same_v<T, std::vector<std::string>> ? "texts" : "whole numbers";
    } else if constexpr (std::is_same_v<T, bool>) {
        return "flag";
    } else if constexpr (std::floating_point<T>) {
        return "number";
    } else {
        return std::is_same_v<T, std::string> ? "text" : "whole number";
    }
}

// What is the same for settings of every type stands outside of the visits, which are compiled for
// each.

Json& member_of(Json& object, std::string_view name) { return object[std::string(name)]; }

Json description(std::string_view type, Json value, const Allowed& allowed, std::string_view help) {
    Json out{{"type", type}, {"default", std::move(value)}};
    if (allowed.high > 0) {
        out["low"] = allowed.low;
        out["high"] = allowed.high;
    }
    if (!allowed.words.empty()) {
        out["words"] = allowed.words;
    }
    out["help"] = help;
    return out;
}

} // namespace

void set(Settings& settings, std::string_view key, const std::string& text) {
    std::vector<std::string> known;
    each_setting(settings, [&](std::string_view table, std::string_view name, auto& value,
                               const Allowed& allowed, std::string_view) {
        known.push_back(key_of(table, name));
        if (known.back() != key) {
            return;
        }
        const bool good = read(text, value); // others than texts can be wrong
        demand(good, fmt::format("{} \"{}\": give {}", key, text,
                                 allowed.high > 0
                                     ? fmt::format("{}, {} to {:.17g}", type_of(value, allowed),
                                                   allowed.low, allowed.high)
                                     : "true or false"));
    });
    if (std::ranges::find(known, key) == known.end()) {
        const auto meant = std::ranges::find_if(
            known, [&](const std::string& one) { return one.ends_with(fmt::format(".{}", key)); });
        const std::string_view near = meant == known.end() ? nearest_word(key, known) : *meant;
        throw UsageError(fmt::format("\"{}\" is not a setting; {}", key,
                                     near.empty() ? std::string("--describe lists them")
                                                  : fmt::format("did you mean {}?", near)));
    }
}

std::map<std::string, std::string> texts(const Settings& settings) {
    std::map<std::string, std::string> out;
    each_setting(settings, [&](std::string_view table, std::string_view name, const auto& value,
                               const Allowed&,
                               std::string_view) { out[key_of(table, name)] = text_of(value); });
    return out;
}

void check(const Settings& settings) {
    each_setting(settings, [](std::string_view table, std::string_view name, const auto& value,
                              const Allowed& allowed, std::string_view) {
        check_range(key_of(table, name), value, allowed);
    });
    demand(!settings.ports.empty(), "replay.ports: none given; give the DNS ports of the trace");
    check_times(settings);
    share_of(settings);
    skipped_prefixes(settings);
    check_hedge(settings);
    check_tls(settings.tls);
}

Json settings_json(const Settings& settings) {
    Json out = Json::object();
    each_setting(settings, [&](std::string_view table, std::string_view name, const auto& value,
                               const Allowed&, std::string_view) {
        member_of(table == "replay" ? out : member_of(out, table), name) = value;
    });
    return out;
}

Json describe_settings() {
    Json out = Json::object();
    const Settings defaults;
    each_setting(defaults, [&](std::string_view table, std::string_view name, const auto& value,
                               const Allowed& allowed, std::string_view help) {
        member_of(member_of(out, table), name) =
            description(type_of(value, allowed), value, allowed, help);
    });
    return out;
}

std::vector<std::string> transport_names(bool played) {
    std::vector<std::string> names;
    for (const Transport one : kTransports) {
        if (is_among(transport_name(one), kTransportWords) == played) {
            names.emplace_back(transport_name(one));
        }
    }
    return names;
}

std::optional<Transport> transport_of(const Settings& settings) {
    const auto* const found = std::ranges::find(kTransports, settings.transport, transport_name);
    return found == kTransports.end() ? std::nullopt : std::optional(*found);
}

std::vector<Endpoint> peers_of(const Settings& settings, std::uint16_t port) {
    std::vector<Endpoint> peers;
    for (const std::string& text : settings.peers) {
        const auto lone = IpAddress::parse(text);
        const auto peer =
            lone ? std::optional(Endpoint{.address = *lone, .port = port}) : Endpoint::parse(text);
        if (!peer || peer->port == 0) {
            throw UsageError(fmt::format(
                "replay.peers {}: not ADDRESS[:PORT], e.g. 198.18.0.54 or [fd00::54]:53", text));
        }
        peers.push_back(*peer);
    }
    return peers;
}

double share_of(const Settings& settings) {
    const std::string& text = settings.sample_sources;
    const bool percent = text.ends_with('%');
    const size_t digits = text.size() - (percent ? 1 : 0);
    const double value = parse_number<double>(std::string_view(text).substr(0, digits)).value_or(0);
    const double share = percent ? value / 100 : value;
    demand(share > 0 && share <= 1,
           fmt::format("replay.sample_sources {}: not a share; give e.g. 10% or 0.1, above 0 and "
                       "at most 100%",
                       text));
    return share;
}

std::vector<Prefix> skipped_prefixes(const Settings& settings) {
    std::vector<Prefix> prefixes;
    for (const std::string& text : settings.skip_sources) {
        const auto prefix = Prefix::parse(text);
        if (!prefix) {
            throw UsageError(fmt::format("replay.skip_sources {}: not a prefix; give e.g. "
                                         "192.0.2.0/24 or 2001:db8::/32",
                                         text));
        }
        prefixes.push_back(*prefix);
    }
    return prefixes;
}

} // namespace reprise
