#include "proxy/rewrite/address_map.hh"

#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <ios>
#include <iterator>
#include <ranges>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr std::string_view kFirstLine = "#reprise-map 1";
constexpr unsigned kMaximumNumber = 16'777'215;

/// Says what is wrong; parse_map() adds where.
[[noreturn]] void refuse(const std::string& what) { throw Error(what); }

unsigned number(std::string_view cell) {
    const unsigned value = parse_number<unsigned>(cell).value_or(0);
    if (value == 0 || value > kMaximumNumber) {
        refuse(fmt::format("\"{}\" is not a number from 1 on", cell.substr(0, 40)));
    }
    return value;
}

/// "-" stands for no address of that family.
IpAddress address(std::string_view cell, int family) {
    const auto parsed = IpAddress::parse(cell);
    if (cell != "-" && (!parsed || parsed->family != family)) {
        refuse(fmt::format("\"{}\" is neither an IPv{} address nor -", cell.substr(0, 60), family));
    }
    return parsed.value_or(IpAddress{});
}

/// Two lines for one address would make the map mean two things.
void once(const IpAddress& address, std::unordered_set<IpAddress>& seen) {
    if (address.family != 0 && !seen.insert(address).second) {
        refuse(fmt::format("{} is there twice", address.text()));
    }
}

struct Seen {
    std::unordered_set<IpAddress> metas;
    std::unordered_set<IpAddress> oqdas;
};

void take(const std::vector<std::string_view>& cells, AddressMap& map, Seen& seen) {
    const std::string_view kind = cells.front();
    const size_t wanted = kind == "resolver" ? 4 : kind == "meta" ? 6 : kind == "oqda" ? 3 : 0;
    if (wanted == 0) {
        refuse(fmt::format("\"{}\" is not resolver, meta or oqda", kind.substr(0, 40)));
    }
    if (cells.size() != wanted) {
        refuse(fmt::format("{} cells where {} has {}", cells.size(), kind, wanted));
    }
    if (kind == "resolver") {
        const unsigned n = number(cells[1]);
        if (map.resolver(n) != nullptr) {
            refuse(fmt::format("resolver {} is there twice", n));
        }
        map.resolvers.push_back(
            {.number = n, .v4 = address(cells[2], 4), .v6 = address(cells[3], 6)});
    } else if (kind == "meta") {
        map.metas.push_back({.slot = number(cells[1]),
                             .resolver = number(cells[2]),
                             .instance = number(cells[3]),
                             .v4 = address(cells[4], 4),
                             .v6 = address(cells[5], 6)});
        once(map.metas.back().v4, seen.metas);
        once(map.metas.back().v6, seen.metas);
    } else {
        const auto parsed = IpAddress::parse(cells[1]);
        if (!parsed) {
            refuse(fmt::format("\"{}\" is not an address", cells[1].substr(0, 60)));
        }
        once(*parsed, seen.oqdas);
        map.oqdas.push_back({.address = *parsed, .slot = number(cells[2])});
    }
}

std::vector<std::string_view> split(std::string_view text, char between) {
    std::vector<std::string_view> pieces;
    for (const auto piece : std::views::split(text, between)) {
        pieces.emplace_back(piece.begin(), piece.end());
    }
    return pieces;
}

} // namespace

const Resolver* AddressMap::resolver(unsigned number) const {
    const auto found = std::ranges::find(resolvers, number, &Resolver::number);
    return found == resolvers.end() ? nullptr : &*found;
}

AddressMap parse_map(std::string_view text, const std::string& name) {
    AddressMap map;
    Seen seen;
    size_t lines = 0;
    try {
        for (const std::string_view line : split(text, '\n')) {
            if (++lines == 1 && line != kFirstLine) {
                refuse(fmt::format("does not begin with the line \"{}\"", kFirstLine));
            }
            if (!line.empty() && line.front() != '#') {
                take(split(line, '\t'), map, seen);
            }
        }
        if (text.empty()) {
            refuse("is empty");
        }
        if (text.back() != '\n') {
            refuse("ends within a line: it was cut, or is being written");
        }
    } catch (const Error& wrong) {
        throw Error(fmt::format("{}:{}: {}; let `reprise zones plan` write it again", name,
                                std::max<size_t>(lines, 1), wrong.what()));
    }
    return map;
}

AddressMap read_map(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        throw UsageError(fmt::format("--map {}: {}; give the map.tsv of a plan", path,
                                     std::generic_category().message(errno)));
    }
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (in.bad()) {
        throw SystemError(fmt::format("read the map {}", path));
    }
    return parse_map(text, path);
}

} // namespace reprise::proxy
