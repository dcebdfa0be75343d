// The only file that reads zone files. A zone that does not load is a value in a list, for there
// may be many of them and the operator wants to see all; a zones.json that cannot be understood
// ends the program, because then nobody knows what was meant.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/text.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

// Its headers do not say that they are C.
extern "C" {
#include <libzscanner/error.h>
#include <libzscanner/scanner.h>
}

namespace reprise::zonebuilder {
namespace {

// Zone text.

constexpr std::uint16_t kInternet = 1;
constexpr std::uint32_t kDefaultTtl = 3600; ///< servers have their own; nothing hangs on it

constexpr std::string_view kGenerate = "$GENERATE";

bool looked_into(std::uint16_t type) {
    constexpr std::array kTypes{kTypeA, kTypeAaaa, kTypeNs, kTypeCname, kTypeDname, kTypeDnskey};
    return std::ranges::find(kTypes, type) != kTypes.end();
}

/// What is kept of an RRSIG (RFC 4034 section 3.1): all but its TTL, the signer's name and the
/// signature.
void take_signature(const zs_scanner_t& state, ZoneRecord& record) {
    Cursor in(std::span(state.r_data, state.r_data_length));
    record.covered = in.u16be();
    record.signer.algorithm = in.u8();
    in.skip(5);
    record.valid.until = in.u32be();
    record.valid.from = in.u32be();
    record.signer.tag = in.u16be();
}

/// The part of a record's data that is kept; nothing for most types.
std::string_view data_of(const zs_scanner_t& state) {
    constexpr std::size_t kKeyId = 3; // all of a DS record but the digest
    const std::string_view data{reinterpret_cast<const char*>(state.r_data), state.r_data_length};
    return looked_into(state.r_type) ? data : data.substr(0, state.r_type == kTypeDs ? kKeyId : 0);
}

/// What BIND alone knows; its own tools write the records out.
bool generates(const zs_scanner_t& state, std::string_view text) {
    if (state.error.code != ZS_BAD_DIRECTIVE) {
        return false;
    }
    for (std::uint64_t line = 1; line < state.line_counter && !text.empty(); ++line) {
        text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    }
    return same_word(text.substr(0, kGenerate.size()), kGenerate);
}

/// Empty where the record can be kept.
std::string wrong_with(const zs_scanner_t& state, std::string_view text) {
    if (state.state == ZS_STATE_INCLUDE) {
        return "$INCLUDE is not followed; put its records into the file";
    }
    if (state.state != ZS_STATE_DATA) {
        if (generates(state, text)) {
            return "$GENERATE is not followed; write its records out, as named-compilezone does";
        }
        return zs_strerror(state.error.code);
    }
    return state.r_class == kInternet ? "" : "a class other than IN";
}

/// Of a scanner that has met a record, or something else.
ZoneRecord record_of(const zs_scanner_t& state, std::string_view text) {
    if (const std::string why = wrong_with(state, text); !why.empty()) {
        throw ZoneError(state.line_counter, why);
    }
    const auto owner = NameKey::from_wire(std::span(state.r_owner, state.r_owner_length));
    if (!owner) {
        throw ZoneError(state.line_counter, "a name that is too long");
    }
    ZoneRecord record{.owner = *owner,
                      .type = state.r_type,
                      .ttl = state.r_ttl,
                      .line = state.line_counter,
                      .rdata = std::string(data_of(state))};
    constexpr std::size_t kFixed = 18; // the signer's name is behind it
    if (state.r_type == kTypeRrsig && state.r_data_length > kFixed) {
        take_signature(state, record);
    }
    return record;
}

} // namespace

std::vector<ZoneRecord> scan_zone(std::string_view text, const NameKey& origin) {
    // The scanner hands over a record when it meets the end of its line.
    const std::string whole = text.ends_with('\n') ? "" : std::string(text) + '\n';
    const std::string_view input = whole.empty() ? text : whole;
    // It is 200 kB: too large for the stack, and clearing it, which zs_init does, is most of a
    // small zone's cost. It keeps no copy of the text.
    const auto state = std::make_unique_for_overwrite<zs_scanner_t>();
    if (zs_init(state.get(), origin.text().c_str(), kInternet, kDefaultTtl) != 0) {
        throw ZoneError(0, "the scanner does not take it");
    }
    const std::unique_ptr<zs_scanner_t, decltype(&zs_deinit)> release(state.get(), zs_deinit);
    if (zs_set_input_string(state.get(), input.data(), input.size()) != 0) {
        throw ZoneError(0, "the scanner does not take it");
    }
    std::vector<ZoneRecord> records;
    while (true) {
        if (zs_parse_record(state.get()) != 0) {
            state->state = ZS_STATE_ERROR;
        }
        if (state->state == ZS_STATE_EOF) {
            return records;
        }
        records.push_back(record_of(*state, text));
    }
}

namespace {

// The folder.

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr std::string_view kList = "zones.json";

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// The JSON library knows, but says so only by throwing.
bool is_utf8(std::string_view text) {
    try {
        static_cast<void>(SortedJson(text).dump());
        return true;
    } catch (const SortedJson::type_error&) {
        return false;
    }
}

/// What stands for a file in configurations of servers and in reports: neither quotes nor line
/// ends.
bool can_be_quoted(std::string_view file) {
    return is_utf8(file) && std::ranges::none_of(file, [](char c) {
               return c == '"' || c == '\\' || is_control(c);
           });
}

/// A file's name for messages, which have one line.
std::string printable(std::string file) {
    const bool utf8 = is_utf8(file);
    std::ranges::replace_if(
        file, [&](char c) { return is_control(c) || (!utf8 && (c & 0x80) != 0); }, '?');
    return file;
}

NameKey name_of(const SortedJson& one) {
    const auto name = NameKey::parse(one.at("name").get<std::string>());
    if (!name) {
        throw Error(fmt::format("{} is not a domain name; write it as in a zone file",
                                one["name"].dump(-1, ' ', true)));
    }
    return *name;
}

std::vector<IpAddress> addresses_of(const SortedJson& list) {
    std::vector<IpAddress> addresses;
    for (const SortedJson& one : list.get_ref<const SortedJson::array_t&>()) {
        const auto address = IpAddress::parse(one.get<std::string>());
        if (!address) {
            throw Error(fmt::format("{} is not an IP address; give addresses like \"192.0.2.1\" or "
                                    "\"2001:db8::1\"",
                                    one.dump()));
        }
        addresses.push_back(*address);
    }
    sort_unique(addresses);
    return addresses;
}

ZoneEntry entry_of(const SortedJson& zone) {
    ZoneEntry entry{.name = name_of(zone), .file = zone.at("file"), .addresses = {}};
    if (!can_be_quoted(entry.file)) {
        throw Error("the file's name has a quote, a backslash or a control character; rename it");
    }
    entry.file = fs::path(entry.file).lexically_normal().string();
    if (zone.contains("addresses")) {
        entry.addresses = addresses_of(zone["addresses"]);
    }
    for (const auto& [key, value] : zone.items()) { // a misspelled "addresses" gives it to others
        if (key != "name" && key != "file" && key != "addresses") {
            throw Error(fmt::format("unknown key {}; there are name, file and addresses",
                                    SortedJson(key).dump(-1, ' ', true)));
        }
    }
    return entry;
}

/// Only regular files: a pipe would be waited for, a device may never end. Throws ZoneError.
std::string read_file(const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error) {
        throw ZoneError(0, error.message());
    }
    if (!fs::is_regular_file(status)) {
        throw ZoneError(0, "not a regular file");
    }
    std::ifstream file(path, std::ios::binary);
    std::string text(file ? fs::file_size(path, error) : 0, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (error || file.bad() || !file.is_open()) {
        throw ZoneError(0, std::strerror(errno));
    }
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

/// By the first bytes of gzip, bzip2, xz and zstd, which no zone begins with.
bool is_compressed(std::string_view text) {
    constexpr std::array<std::string_view, 4> kMagic{"\x1f\x8b", "BZh",
                                                     "\xfd"
                                                     "7zXZ",
                                                     "\x28\xb5\x2f\xfd"};
    return std::ranges::any_of(kMagic, [&](auto magic) { return text.starts_with(magic); });
}

/// `name`, as the entry has it, is then that of the zone as far as it is known.
Zone load_zone(const fs::path& folder, const ZoneEntry& entry, std::optional<NameKey>& name) {
    if (!can_be_quoted(entry.file)) {
        throw ZoneError(0, "its name cannot stand in a server's configuration");
    }
    const std::string text = read_file(folder / entry.file);
    if (is_compressed(text)) {
        throw ZoneError(0, "it is compressed; unpack it");
    }
    Zone zone = read_zone(text, entry.file, name);
    zone.stated = entry.addresses;
    return zone;
}

/// Sorted, because folders list their files in any order and plans are to repeat.
std::vector<ZoneEntry> zone_files(const fs::path& folder) {
    std::vector<ZoneEntry> entries;
    std::error_code error;
    fs::directory_iterator items(folder, error);
    for (; !error && items != fs::directory_iterator(); items.increment(error)) {
        std::error_code unknown; // what cannot be looked at is told when it is read
        if (items->path().extension() == ".zone" && !items->is_directory(unknown)) {
            entries.push_back(
                {.name = {}, .file = items->path().filename().string(), .addresses = {}});
        }
    }
    if (error) {
        throw Error(fmt::format("cannot list {}: {}; change its permissions", folder.string(),
                                error.message()));
    }
    std::ranges::sort(entries, {}, &ZoneEntry::file);
    return entries;
}

} // namespace

ZoneList parse_zones_json(std::string_view text) {
    ZoneList found;
    std::string part; // entries are counted from 1, as people count
    try {
        const SortedJson list = SortedJson::parse(text);
        if (list.at("schema") != 1) {
            throw Error("this program reads \"schema\": 1");
        }
        std::set<std::pair<std::optional<NameKey>, std::string>> seen;
        for (const SortedJson& zone : list.at("zones").get_ref<const SortedJson::array_t&>()) {
            part = fmt::format("zone {}: ", found.zones.size() + 1);
            const ZoneEntry& entry = found.zones.emplace_back(entry_of(zone));
            if (!seen.emplace(entry.name, entry.file).second) {
                throw Error(fmt::format("{} from {} is listed twice; put all its addresses into "
                                        "one entry",
                                        name_of(zone).text(), entry.file));
            }
        }
        for (const SortedJson& one : list.value("asked", SortedJson::array())) {
            part = fmt::format("entry {} of \"asked\": ", found.asked.size() + 1);
            found.asked.push_back(
                {name_of(one), addresses_of(one.value("addresses", SortedJson::array()))});
        }
    } catch (const Error& error) {
        throw Error(fmt::format("{}: {}{}", kList, part, error.what()));
    } catch (const SortedJson::exception& error) { // some have several lines
        std::string what = error.what();
        std::ranges::replace(what, '\n', ' ');
        throw Error(fmt::format("{}: {}{}; see docs/formats.md", kList, part, what));
    }
    return found;
}

ZoneList list_zones(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
        throw UsageError(
            fmt::format("{} is not a folder; give the folder of zone files", folder.string()));
    }
    ZoneList list;
    // A link that leads nowhere is a list that is lost, and not a folder without one.
    if (fs::symlink_status(folder / kList, error).type() != fs::file_type::not_found) {
        try {
            list = parse_zones_json(read_file(folder / kList));
        } catch (const ZoneError& wrong) {
            throw Error(fmt::format("cannot read {}: {}; fix it, or remove it to use every "
                                    "*.zone file",
                                    (folder / kList).string(), wrong.what()));
        }
    } else {
        list.zones = zone_files(folder);
    }
    if (list.zones.empty()) {
        throw Error(fmt::format("no zone in {}; put *.zone files there, or list them in {}",
                                folder.string(), kList));
    }
    return list;
}

LoadedZones load_zones(const fs::path& folder, const std::vector<ZoneEntry>& entries) {
    LoadedZones loaded;
    for (const ZoneEntry& entry : entries) {
        std::optional<NameKey> name = entry.name;
        try {
            loaded.zones.push_back(load_zone(folder, entry, name));
        } catch (const ZoneError& error) {
            loaded.bad.push_back({.name = name ? name->text() : "",
                                  .file = printable(entry.file),
                                  .line = error.line(),
                                  .why = error.what()});
        }
    }
    std::ranges::sort(loaded.zones, [](const Zone& a, const Zone& b) {
        return std::tie(a.name, a.file) < std::tie(b.name, b.file);
    });
    return loaded;
}

} // namespace reprise::zonebuilder
