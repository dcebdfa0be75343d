// Rule files: TOML, read by toml++, every value with its line.

#include "core/base/nearest.hh"
#include "core/base/trace_time.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <toml++/toml.h>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

/// A rule file is written by hand; more than this is another file by mistake.
constexpr std::streamsize kMostBytes = 1L << 20U;

std::string place_of(const std::string& name, const toml::node& node) {
    return fmt::format("{}:{}", name, node.source().begin.line);
}

[[noreturn]] void fail(const std::string& place, const std::string& what) {
    throw RuleError(fmt::format("{}: {}", place, what));
}

/// toml++'s tables are in the order of their keys, ours in that of the file.
std::vector<std::pair<std::string, const toml::node*>> in_order(const toml::table& table) {
    std::vector<std::pair<std::string, const toml::node*>> out;
    for (const auto& [key, value] : table) {
        out.emplace_back(key.str(), &value);
    }
    std::ranges::sort(out, {}, [](const auto& entry) {
        const auto& begin = entry.second->source().begin;
        return std::pair(begin.line, begin.column);
    });
    return out;
}

/// A value as it would stand on the command line; nothing of tables and arrays.
std::string scalar_text(const std::string& place, const toml::node& node) {
    if (const auto* text = node.as_string()) {
        return text->get();
    }
    if (const auto* integer = node.as_integer()) {
        return std::to_string(integer->get());
    }
    if (const auto* number = node.as_floating_point()) {
        return decimal_text(number->get());
    }
    if (const auto* flag = node.as_boolean()) {
        return flag->get() ? "on" : "off";
    }
    std::ostringstream out;
    if (const auto* stamp = node.as_date_time()) {
        out << stamp->get();
        std::string text = out.str();
        return text.ends_with("+00:00") ? text.substr(0, text.size() - 6) + "Z" : text;
    }
    fail(place, "is not text, number, true or false, date with time in UTC, or list of these");
}

/// "[[0, 1000], [60, 5000]]" and "{A = 50}" give values "0:1000" and "A:50".
std::string element_text(const std::string& place, const toml::node& node) {
    const toml::array* pair = node.as_array();
    if (pair == nullptr) {
        return scalar_text(place, node);
    }
    if (pair->size() != 2) {
        fail(place, "a list in a list is a pair of two values");
    }
    return scalar_text(place, (*pair)[0]) + ":" + scalar_text(place, (*pair)[1]);
}

std::vector<std::string> values_of(const std::string& place, const toml::node& node) {
    std::vector<std::string> values;
    if (const toml::array* list = node.as_array()) {
        for (const toml::node& element : *list) {
            values.push_back(element_text(place, element));
        }
    } else if (const toml::table* mix = node.as_table()) {
        for (const auto& [key, weight] : in_order(*mix)) {
            values.push_back(key + ":" + scalar_text(place, *weight));
        }
    } else {
        values.push_back(scalar_text(place, node));
    }
    if (values.empty()) {
        fail(place, "has no value");
    }
    return values;
}

class RuleFile {
public:
    RuleFile(std::string name, RuleSet& rules) : name_(std::move(name)), rules_(rules) {}

    void read(const toml::table& root) {
        if (root.empty()) {
            fail(name_, "holds no rule; write [[rule]] with kind = \"KIND\"");
        }
        for (const auto& [key, value] : in_order(root)) {
            read_key(key, *value);
        }
    }

private:
    void read_key(const std::string& key, const toml::node& value) {
        const std::string place = place_of(name_, value);
        if (key == "seed") {
            read_seed(place, value);
        } else if (key == "malformed") {
            read_malformed(place, value);
        } else if (key == "rule") {
            read_rules(place, value);
        } else {
            fail(place, fmt::format("key {} is not known{}", key,
                                    suggestion(key, {"seed", "malformed", "rule"})));
        }
    }

    void read_seed(const std::string& place, const toml::node& value) {
        const auto* seed = value.as_integer();
        if (seed == nullptr || seed->get() < 0) {
            fail(place, "key seed: is not a whole number from 0");
        }
        rules_.seed = static_cast<std::uint64_t>(seed->get());
    }

    void read_malformed(const std::string& place, const toml::node& value) {
        const auto word = value.value<std::string_view>().value_or("");
        if (word != "keep" && word != "drop") {
            fail(place, R"(key malformed: is neither "keep" nor "drop")");
        }
        rules_.drop_malformed = word == "drop";
    }

    void read_rules(const std::string& place, const toml::node& value) {
        const toml::array* list = value.as_array();
        if (list == nullptr) {
            fail(place, "rules are a list; write [[rule]], with two brackets");
        }
        for (const toml::node& node : *list) {
            const toml::table* table = node.as_table();
            if (table == nullptr) {
                fail(place_of(name_, node), "a rule is a table; write [[rule]]");
            }
            read_rule(place_of(name_, node), *table);
        }
    }

    void read_rule(const std::string& place, const toml::table& table) {
        const toml::node* kind = table.get("kind");
        if (kind == nullptr) {
            fail(place, R"(the rule has no kind; write kind = "KIND")");
        }
        const std::string kind_place = place_of(name_, *kind);
        if (!kind->is_string()) {
            fail(kind_place, "kind is not a text; write kind = \"KIND\"");
        }
        const std::string name = kind->as_string()->get();
        kind_of(name, kind_place); // a wrong one is told before its keys
        rules_.rules.emplace_back(name, place, read_arguments(table));
    }

    std::vector<Argument> read_arguments(const toml::table& table) {
        std::vector<Argument> list;
        for (const auto& [key, value] : in_order(table)) {
            if (key == "where") {
                read_where(*value, list);
            } else if (key != "kind") {
                list.push_back(argument(key, *value));
            }
        }
        return list;
    }

    void read_where(const toml::node& value, std::vector<Argument>& list) {
        const toml::table* conditions = value.as_table();
        if (conditions == nullptr) {
            fail(place_of(name_, value), "where is a table; write where = { type = \"A\" }");
        }
        for (const auto& [key, condition] : in_order(*conditions)) {
            list.push_back(argument("where." + key, *condition));
        }
    }

    Argument argument(const std::string& key, const toml::node& value) {
        const std::string place = place_of(name_, value);
        return {.key = key,
                .values = values_of(fmt::format("{}: key {}", place, key), value),
                .place = place};
    }

    std::string name_;
    RuleSet& rules_;
};

/// toml++'s own words, on one line.
std::string one_line(std::string_view text) {
    std::string out(text);
    std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20; }, ' ');
    return out;
}

std::string read_text(const std::string& path) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::string text(kMostBytes + 1, '\0');
    file.read(text.data(), kMostBytes + 1);
    if (file.gcount() == 0 && (!file.is_open() || file.bad() || errno != 0)) {
        throw RuleError(fmt::format("{}: cannot read the rule file: {}; check the path, that it is "
                                    "a file, and its permissions",
                                    path, std::generic_category().message(errno)));
    }
    if (file.gcount() > kMostBytes) {
        throw RuleError(
            fmt::format("{}: has more than {} bytes; is it a rule file?", path, kMostBytes));
    }
    text.resize(static_cast<size_t>(file.gcount()));
    return text;
}

} // namespace

void parse_rule_file(std::string_view text, const std::string& name, RuleSet& rules) {
    try {
        RuleFile(name, rules).read(toml::parse(text, name));
    } catch (const toml::parse_error& error) {
        throw RuleError(fmt::format("{}:{}: {}", name, error.source().begin.line,
                                    one_line(error.description())));
    }
}

void read_rule_file(const std::string& path, RuleSet& rules) {
    parse_rule_file(read_text(path), path, rules);
}

} // namespace reprise::rules
