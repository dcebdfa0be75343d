#include "proxy/rewrite/address_map.hh"

#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/numbers.hh"

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
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr std::string_view kFirstLine = "#reprise-map 1";
constexpr unsigned kMaximumNumber = 16'777'215;

class Parser {
public:
    explicit Parser(const std::string& name) : name_(name) {}

    AddressMap run(std::string_view text) {
        const bool cut = !text.empty() && text.back() != '\n';
        while (!text.empty()) {
            const size_t end = std::min(text.find('\n'), text.size());
            ++line_;
            take(text.substr(0, end));
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        if (line_ == 0) {
            refuse("is empty");
        }
        if (cut) {
            refuse("ends within a line: it was cut, or is being written");
        }
        return std::move(map_);
    }

private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw Error(fmt::format("{}:{}: {}; let `reprise zones plan` write it again", name_,
                                std::max<size_t>(line_, 1), what));
    }

    void take(std::string_view line) {
        if (line_ == 1) {
            if (line != kFirstLine) {
                refuse(fmt::format("does not begin with the line \"{}\"", kFirstLine));
            }
            return;
        }
        if (!line.empty() && line.front() != '#') {
            std::vector<std::string_view> cells;
            for (const auto cell : std::views::split(line, '\t')) {
                cells.emplace_back(cell.begin(), cell.end());
            }
            take_cells(cells);
        }
    }

    void take_cells(const std::vector<std::string_view>& cells) {
        const std::string_view kind = cells.front();
        const size_t wanted = kind == "resolver" ? 4 : kind == "meta" ? 6 : kind == "oqda" ? 3 : 0;
        if (wanted == 0) {
            refuse(fmt::format("\"{}\" is not resolver, meta or oqda", kind.substr(0, 40)));
        }
        if (cells.size() != wanted) {
            refuse(fmt::format("{} cells where {} has {}", cells.size(), kind, wanted));
        }
        if (kind == "resolver") {
            add_resolver(cells);
        } else if (kind == "meta") {
            add_meta(cells);
        } else {
            add_oqda(cells);
        }
    }

    void add_resolver(const std::vector<std::string_view>& cells) {
        const unsigned n = number(cells[1]);
        if (map_.resolver(n) != nullptr) {
            refuse(fmt::format("resolver {} is there twice", n));
        }
        map_.resolvers.push_back(
            {.number = n, .v4 = address(cells[2], 4), .v6 = address(cells[3], 6)});
    }

    void add_meta(const std::vector<std::string_view>& cells) {
        const MetaAddress meta{.slot = number(cells[1]),
                               .resolver = number(cells[2]),
                               .instance = number(cells[3]),
                               .v4 = address(cells[4], 4),
                               .v6 = address(cells[5], 6)};
        once(meta.v4, metas_);
        once(meta.v6, metas_);
        map_.metas.push_back(meta);
    }

    void add_oqda(const std::vector<std::string_view>& cells) {
        const auto parsed = IpAddress::parse(cells[1]);
        if (!parsed) {
            refuse(fmt::format("\"{}\" is not an address", cells[1].substr(0, 60)));
        }
        once(*parsed, oqdas_);
        map_.oqdas.push_back({.address = *parsed, .slot = number(cells[2])});
    }

    /// Two lines for one address would make the map mean two things.
    void once(const IpAddress& address, std::unordered_set<IpAddress>& seen) const {
        if (address.family != 0 && !seen.insert(address).second) {
            refuse(fmt::format("{} is there twice", address.text()));
        }
    }

    [[nodiscard]] unsigned number(std::string_view cell) const {
        const unsigned value = parse_number<unsigned>(cell).value_or(0);
        if (value == 0 || value > kMaximumNumber) {
            refuse(fmt::format("\"{}\" is not a number from 1 on", cell.substr(0, 40)));
        }
        return value;
    }

    /// "-" stands for no address of that family.
    [[nodiscard]] IpAddress address(std::string_view cell, int family) const {
        const auto parsed = IpAddress::parse(cell);
        if (cell != "-" && (!parsed || parsed->family != family)) {
            refuse(fmt::format("\"{}\" is neither an IPv{} address nor -", cell.substr(0, 60),
                               family));
        }
        return parsed.value_or(IpAddress{});
    }

    const std::string& name_;
    size_t line_ = 0;
    AddressMap map_;
    std::unordered_set<IpAddress> metas_;
    std::unordered_set<IpAddress> oqdas_;
};

} // namespace

const Resolver* AddressMap::resolver(unsigned number) const {
    const auto found = std::ranges::find(resolvers, number, &Resolver::number);
    return found == resolvers.end() ? nullptr : &*found;
}

AddressMap parse_map(std::string_view text, const std::string& name) {
    return Parser(name).run(text);
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
