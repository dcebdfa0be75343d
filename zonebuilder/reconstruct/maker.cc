#include "zonebuilder/reconstruct/maker.hh"

#include "core/base/bytes.hh"
#include "core/dns/name.hh"
#include "zonebuilder/reconstruct/draft.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/reconstruct/strings.hh"
#include "zonebuilder/zone/name_key.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {

std::string wire_of(const NameKey& name) {
    const Name wire = parse_name(name.text()).value_or(Name());
    return {wire.bytes().begin(), wire.bytes().end()};
}

std::string soa_of(const NameKey& server) {
    constexpr std::array<std::uint32_t, 5> kSerialAndTimes{1, 3600, 900, 1'209'600, 300};
    std::string data = wire_of(server) + wire_of(NameKey{});
    for (const std::uint32_t value : kSerialAndTimes) {
        std::array<std::uint8_t, 4> bytes{};
        store32(bytes.data(), value);
        data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return data;
}

void Maker::make(std::size_t zone, NameId owner, std::uint16_t type, ContentId content,
                 std::uint32_t ttl, std::string_view why, ContentId signatures) {
    if (drafts_.zones[zone].find(owner, type, seen_.names()) == nullptr &&
        made_.emplace(zone, owner, type).second) {
        extra_[zone].push_back({.owner = owner,
                                .type = type,
                                .ttl = ttl,
                                .content = content,
                                .signatures = signatures,
                                .observation = kNoId,
                                .why = why});
    }
}

ContentId Maker::content(std::vector<std::string> data) {
    std::ranges::sort(data);
    return seen_.contents().add(content_of({data.begin(), data.end()}));
}

void Maker::flush() {
    const auto place = [this](const DraftRrset& one) {
        return std::pair(seen_.names().key(one.owner), one.type);
    };
    for (auto& [zone, extra] : extra_) {
        auto& rrsets = drafts_.zones[zone].rrsets;
        rrsets.insert(rrsets.end(), extra.begin(), extra.end());
        std::ranges::sort(rrsets, {}, place);
    }
    extra_.clear();
}

} // namespace reprise::zonebuilder
