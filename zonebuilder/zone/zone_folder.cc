// The only file that reads zone files. A zone that does not load is a value in a list, for there
// may be many of them and the operator wants to see all; a zones.json that cannot be understood
// ends the program, because then nobody knows what was meant.
#include "zonebuilder/zone/zone_folder.hh"

#include "core/base/address.hh"
#include "core/base/error.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::zonebuilder {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr std::string_view kList = "zones.json";

/// Entries are counted from 1, as people count.
[[noreturn]] void refuse(std::size_t entry, std::string_view what, std::string_view hint) {
    throw Error(fmt::format("{}: zone {}: {}; {}", kList, entry, what, hint));
}

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

std::string string_of(const SortedJson& zone, const char* key, std::size_t entry) {
    const auto value = zone.find(key);
    if (value == zone.end() || !value->is_string() || value->get<std::string>().empty()) {
        refuse(entry, fmt::format("no \"{}\"", key), "give it as a string");
    }
    return value->get<std::string>();
}

IpAddress address_of(const SortedJson& value, std::size_t entry) {
    const auto address =
        value.is_string() ? IpAddress::parse(value.get<std::string>()) : std::nullopt;
    if (!address) {
        refuse(entry, fmt::format("{} is not an IP address", value.dump()),
               R"(give addresses like "192.0.2.1" or "2001:db8::1")");
    }
    return *address;
}

std::optional<std::vector<IpAddress>> addresses_of(const SortedJson& zone, std::size_t entry) {
    const auto value = zone.find("addresses");
    if (value == zone.end()) {
        return std::nullopt;
    }
    if (!value->is_array()) {
        refuse(entry, "\"addresses\" is not a list", "give a list of strings, or leave it out");
    }
    std::vector<IpAddress> addresses;
    for (const SortedJson& one : *value) {
        addresses.push_back(address_of(one, entry));
    }
    sort_unique(addresses);
    return addresses;
}

/// A misspelled "addresses" would silently give the zone to other servers.
void check_keys(const SortedJson& zone, std::size_t entry) {
    for (const auto& [key, value] : zone.items()) {
        if (key != "name" && key != "file" && key != "addresses") {
            refuse(entry, fmt::format("unknown key {}", SortedJson(key).dump(-1, ' ', true)),
                   "there are name, file and addresses");
        }
    }
}

ZoneEntry entry_of(const SortedJson& zone, std::size_t entry) {
    if (!zone.is_object()) {
        refuse(entry, "not an object", R"(give {"name": ..., "file": ...})");
    }
    check_keys(zone, entry);
    const std::string name = string_of(zone, "name", entry);
    const std::string file = string_of(zone, "file", entry);
    const auto parsed = NameKey::parse(name);
    if (!parsed) {
        refuse(entry, fmt::format("{} is not a domain name", SortedJson(name).dump(-1, ' ', true)),
               "write it as in a zone file");
    }
    if (!can_be_quoted(file)) {
        refuse(entry, "the file's name has a quote, a backslash or a control character",
               "rename it");
    }
    return {.name = parsed,
            .file = fs::path(file).lexically_normal().string(),
            .addresses = addresses_of(zone, entry)};
}

/// The library's message names line and column, in several lines.
SortedJson parse_json(std::string_view text) {
    try {
        return SortedJson::parse(text);
    } catch (const SortedJson::exception& error) {
        std::string what = error.what();
        std::ranges::replace(what, '\n', ' ');
        throw Error(fmt::format("{} is not JSON: {}; fix it, or remove it to use every *.zone file",
                                kList, what));
    }
}

void check_schema(const SortedJson& list) {
    if (!list.is_object() || list.value("schema", SortedJson()) != SortedJson(1)) {
        throw Error(fmt::format("{} has no \"schema\": 1; this program reads schema 1", kList));
    }
    if (!list.contains("zones") || !list["zones"].is_array()) {
        throw Error(
            fmt::format("{} has no list \"zones\"; give one object for each zone file", kList));
    }
}

/// The list "asked", which may be left out.
std::vector<AskedInVain> asked_of(const SortedJson& list) {
    std::vector<AskedInVain> asked;
    const auto given = list.find("asked");
    for (const SortedJson& one : given == list.end() ? SortedJson::array() : *given) {
        const auto name = one.is_object() ? one.find("name") : one.end();
        const auto parsed = one.is_object() && name != one.end() && name->is_string()
                                ? NameKey::parse(name->get<std::string>())
                                : std::nullopt;
        if (!parsed) {
            throw Error(
                fmt::format("{}: entry {} of \"asked\" has no domain name; give {{\"name\": "
                            "..., \"addresses\": [...]}}",
                            kList, asked.size() + 1));
        }
        const std::size_t entry = asked.size() + 1;
        asked.push_back({*parsed, addresses_of(one, entry).value_or(std::vector<IpAddress>{})});
    }
    return asked;
}

struct FileText {
    std::optional<std::string> text;
    std::string why; ///< it is empty
};

/// Only regular files: a pipe would be waited for, a device may never end.
FileText read_file(const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error) {
        return {{}, error.message()};
    }
    if (!fs::is_regular_file(status)) {
        return {{}, "not a regular file"};
    }
    std::ifstream file(path, std::ios::binary);
    std::string text(file ? fs::file_size(path, error) : 0, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (error || file.bad() || !file.is_open()) {
        return {{}, std::strerror(errno)};
    }
    text.resize(static_cast<std::size_t>(file.gcount()));
    return {std::move(text), {}};
}

/// By the first bytes of gzip, bzip2, xz and zstd, which no zone begins with.
bool is_compressed(std::string_view text) {
    constexpr std::array<std::string_view, 4> kMagic{"\x1f\x8b", "BZh",
                                                     "\xfd"
                                                     "7zXZ",
                                                     "\x28\xb5\x2f\xfd"};
    return std::ranges::any_of(kMagic, [&](auto magic) { return text.starts_with(magic); });
}

std::variant<Zone, BadZone> load_zone(const fs::path& folder, const ZoneEntry& entry) {
    const std::string name = entry.name ? entry.name->text() : "";
    if (!can_be_quoted(entry.file)) {
        return BadZone{name, printable(entry.file), 0,
                       "its name cannot stand in a server's configuration"};
    }
    const FileText file = read_file(folder / entry.file);
    if (!file.text) {
        return BadZone{name, entry.file, 0, file.why};
    }
    if (is_compressed(*file.text)) {
        return BadZone{name, entry.file, 0, "it is compressed; unpack it"};
    }
    auto zone = read_zone(*file.text, entry.file, entry.name);
    if (auto* made = std::get_if<Zone>(&zone)) {
        made->stated = entry.addresses;
    }
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
    const SortedJson list = parse_json(text);
    check_schema(list);
    ZoneList found{.zones = {}, .asked = asked_of(list)};
    std::vector<ZoneEntry>& entries = found.zones;
    std::set<std::pair<NameKey, std::string>> seen;
    for (const SortedJson& zone : list["zones"]) {
        entries.push_back(entry_of(zone, entries.size() + 1));
        const ZoneEntry& entry = entries.back();
        const NameKey name = entry.name.value_or(NameKey{});
        if (!seen.emplace(name, entry.file).second) {
            refuse(entries.size(),
                   fmt::format("{} from {} is listed twice", name.text(), entry.file),
                   "put all its addresses into one entry");
        }
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
        const FileText file = read_file(folder / kList);
        if (!file.text) {
            throw Error(fmt::format("cannot read {}: {}; fix it, or remove it to use every "
                                    "*.zone file",
                                    (folder / kList).string(), file.why));
        }
        list = parse_zones_json(*file.text);
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
        auto zone = load_zone(folder, entry);
        if (auto* made = std::get_if<Zone>(&zone)) {
            loaded.zones.push_back(std::move(*made));
        } else {
            loaded.bad.push_back(std::get<BadZone>(std::move(zone)));
        }
    }
    std::ranges::sort(loaded.zones, [](const Zone& a, const Zone& b) {
        return std::tie(a.name, a.file) < std::tie(b.name, b.file);
    });
    return loaded;
}

} // namespace reprise::zonebuilder
