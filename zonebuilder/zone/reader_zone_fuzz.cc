// The planner's input: zone text, and zones.json.
#include "core/base/error.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace {

using reprise::zonebuilder::NameKey;

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

/// A name's text stands for it in the servers' configurations.
void check(const NameKey& name) {
    require(NameKey::parse(name.text()) == name && name.text().find('"') == std::string::npos);
}

void read_list(std::string_view text) {
    try {
        for (const auto& entry : reprise::zonebuilder::parse_zones_json(text).zones) {
            check(entry.name.value_or(NameKey{}));
        }
    } catch (const reprise::Error&) {
        return; // what is wrong with it; anything else thrown ends the fuzzer
    }
}

void read_text(std::string_view text) {
    try {
        std::optional<NameKey> name;
        const auto zone = reprise::zonebuilder::read_zone(text, "example.zone", name);
        check(zone.name);
        for (const auto& delegation : zone.delegations) {
            require(delegation.name.within(zone.name) && delegation.name != zone.name);
        }
        for (const auto& host : zone.hosts) {
            require(host.host.within(zone.name));
        }
    } catch (const reprise::zonebuilder::ZoneError&) {
        return;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (text.starts_with('{')) {
        read_list(text);
    } else {
        read_text(text);
    }
    return 0;
}
