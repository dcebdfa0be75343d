// The texts that resolvers and data paths read. What servers read is made of plan.json.
#include "zonebuilder/plan/outputs.hh"

#include "core/base/address.hh"
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/plan/slots.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
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

std::string key_line(const TrustAnchor& anchor) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(anchor.rdata[i]); };
    return fmt::format(". {} IN DNSKEY {} {} {} {}\n", anchor.ttl, byte(0) << 8U | byte(1), byte(2),
                       byte(3), base64(std::string_view(anchor.rdata).substr(4)));
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
    for (std::size_t i = 0; i < plan.groups.size(); ++i) {
        for (const IpAddress& address : plan.groups[i].addresses) {
            fmt::format_to(out, "oqda\t{}\t{}\n", address.text(), plan.slot_of_group[i] + 1);
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
        text += key_line(anchor);
    }
    return text;
}

} // namespace reprise::zonebuilder
