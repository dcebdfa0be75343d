#pragma once
// Responses written as zone text, for tests.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"

extern "C" {
#include <libzscanner/scanner.h>
}

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reprise::zonebuilder::testing {

using Wire = std::vector<std::uint8_t>;

/// A response; sections are lines of a zone file with absolute names.
struct Reply {
    std::string server;
    std::string question; ///< "www.example.com. A"
    bool authoritative = true;
    std::string answer{};
    std::string authority{};
    std::string additional{};
    unsigned rcode = 0;
    bool truncated = false;
};

/// Appends the records of zone text in wire form; returns how many.
inline unsigned append_records(Wire& out, const std::string& text) {
    const auto scanner = std::make_unique<zs_scanner_t>();
    const std::string whole = text + "\n";
    if (zs_init(scanner.get(), ".", 1, 60) != 0 ||
        zs_set_input_string(scanner.get(), whole.data(), whole.size()) != 0) {
        throw std::runtime_error("zscanner");
    }
    unsigned count = 0;
    while (zs_parse_record(scanner.get()) == 0 && scanner->state == ZS_STATE_DATA) {
        out.insert(out.end(), scanner->r_owner, scanner->r_owner + scanner->r_owner_length);
        append16(out, scanner->r_type);
        append16(out, scanner->r_class);
        append16(out, scanner->r_ttl >> 16U);
        append16(out, scanner->r_ttl);
        append16(out, scanner->r_data_length);
        out.insert(out.end(), scanner->r_data, scanner->r_data + scanner->r_data_length);
        ++count;
    }
    const bool whole_text = scanner->state == ZS_STATE_EOF;
    zs_deinit(scanner.get());
    return whole_text ? count : throw std::invalid_argument(text);
}

inline Wire wire_of(const Reply& reply) {
    Wire out(kDnsHeaderSize);
    const auto space = reply.question.find(' ');
    const auto name = parse_name(reply.question.substr(0, space));
    const auto type = type_number(reply.question.substr(space + 1));
    if (!name || !type) {
        throw std::invalid_argument(reply.question);
    }
    out.insert(out.end(), name->bytes().begin(), name->bytes().end());
    append16(out, *type);
    append16(out, 1);
    const unsigned flags = 0x8000U | (reply.authoritative ? 0x400U : 0U) |
                           (reply.truncated ? 0x200U : 0U) | reply.rcode;
    store16(&out[2], flags);
    store16(&out[4], 1);
    const unsigned answers = append_records(out, reply.answer);
    const unsigned authorities = append_records(out, reply.authority);
    const unsigned additionals = append_records(out, reply.additional);
    store16(&out[6], answers);
    store16(&out[8], authorities);
    store16(&out[10], additionals);
    return out;
}

/// What was rebuilt: zone texts by name.
struct Rebuilt {
    explicit Rebuilt(const std::vector<Reply>& replies, Nanoseconds at = Observations::kFirst)
        : seen(at) {
        ResponseReader reader(seen.names(), seen.contents());
        Response response;
        Nanoseconds time = 0;
        for (const Reply& reply : replies) {
            const auto address = IpAddress::parse(reply.server);
            const auto why = reader.read(wire_of(reply), response);
            if (!address || !(why.empty() || reply.truncated)) {
                throw std::invalid_argument(reply.question);
            }
            time += kSecond;
            if (why.empty()) {
                seen.add(response, seen.server(*address), time);
            }
        }
        hierarchy = std::make_unique<Hierarchy>(seen);
        drafts = make_drafts(seen, *hierarchy);
        complete(seen, *hierarchy, drafts);
        for (const Draft& zone : drafts.zones) {
            const std::string name = seen.names().name(zone.name).text();
            texts[name] = zone_text(zone, seen, Dnssec::kKeep);
            for (const IpAddress& address : zone.addresses) {
                addresses[name].push_back(address.text());
            }
        }
    }

    /// Whether a zone has this record, as its text has it.
    [[nodiscard]] bool has(const std::string& zone, const std::string& record) const {
        const auto text = texts.find(zone);
        return text != texts.end() && text->second.find(record) != std::string::npos;
    }

    Observations seen;
    std::unique_ptr<Hierarchy> hierarchy;
    Drafts drafts;
    std::map<std::string, std::string> texts;
    std::map<std::string, std::vector<std::string>> addresses;
};

} // namespace reprise::zonebuilder::testing
