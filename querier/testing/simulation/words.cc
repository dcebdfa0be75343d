#include "querier/testing/simulation/words.hh"

#include "core/base/error.hh"
#include "core/wire/query.hh"
#include "querier/testing/simulation/scenario.hh"
#include "querier/testing/simulation/server.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace reprise::querier::testing {
namespace {

constexpr std::string_view kDivider = "---";

constexpr std::array<std::pair<std::string_view, Action>, 15> kActions{{
    {"answer", Action::kAnswer},
    {"truncate", Action::kTruncate},
    {"servfail", Action::kServfail},
    {"drop", Action::kDrop},
    {"twice", Action::kTwice},
    {"garbage", Action::kGarbage},
    {"stranger", Action::kStranger},
    {"trail", Action::kTrail},
    {"close", Action::kClose},
    {"hang-up", Action::kHangUp},
    {"reset", Action::kReset},
    {"refuse", Action::kRefuse},
    {"ignore", Action::kIgnore},
    {"read-nothing", Action::kReadNot},
    {"bad-length", Action::kBadLength},
}};

bool says_nothing(const std::string& line) {
    const size_t first = line.find_first_not_of(" \t");
    return first == std::string::npos || line[first] == '#';
}

void carry_out_line(const std::string& line, const Verbs& verbs) {
    std::istringstream in(line);
    Words words(std::istream_iterator<std::string>(in), {});
    const std::string word = take(words);
    const auto verb = verbs.find(word);
    if (verb == verbs.end()) {
        throw Error(fmt::format("{} is not known", word));
    }
    verb->second(words);
    if (!words.empty()) {
        throw Error(fmt::format("{} is not expected here", words.front()));
    }
}

} // namespace

void carry_out(const Scenario& scenario, const Verbs& verbs) {
    for (const std::string& line : scenario.script) {
        try {
            carry_out_line(line, verbs);
        } catch (const std::exception& error) {
            throw Error(fmt::format("{}: {}", line, error.what()));
        }
    }
}

std::string take_key(Words& words) {
    const std::string name = take(words);
    return name.find('.') == std::string::npos ? "replay." + name : name;
}

std::string take(Words& words) {
    if (words.empty()) {
        throw Error("a word is missing");
    }
    std::string word = std::move(words.front());
    words.pop_front();
    return word;
}

std::string take_after(Words& words, std::string_view key, const std::string& otherwise) {
    const auto found = std::ranges::find(words, key);
    if (found == words.end()) {
        return otherwise;
    }
    if (std::next(found) == words.end()) {
        throw Error(fmt::format("{} needs a value", key));
    }
    std::string value = *std::next(found);
    words.erase(found, std::next(found, 2));
    return value;
}

std::uint64_t number(const std::string& text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        throw Error(fmt::format("{} is no number", text));
    }
    return value;
}

Nanoseconds duration(const std::string& text) {
    size_t used = 0;
    const double value = std::stod(text, &used);
    const std::map<std::string, Nanoseconds> units{
        {"us", kMicrosecond}, {"ms", kMillisecond}, {"s", kSecond}};
    const auto unit = units.find(text.substr(used));
    if (unit == units.end()) {
        throw Error(fmt::format("{} is no time: us, ms or s", text));
    }
    return static_cast<Nanoseconds>(value * static_cast<double>(unit->second));
}

Transport transport(const std::string& name) {
    const auto* const found = std::ranges::find(kTransports, name, transport_name);
    if (found == kTransports.end()) {
        throw Error(fmt::format("{} is no transport", name));
    }
    return *found;
}

bool is_transport(const std::string& word) {
    return std::ranges::find(kTransports, word, transport_name) != kTransports.end();
}

Action action(const std::string& word) {
    const auto* const found =
        std::ranges::find(kActions, word, &std::pair<std::string_view, Action>::first);
    if (found == kActions.end()) {
        throw Error(fmt::format("a server cannot {}", word));
    }
    return found->second;
}

Rule rule_of(Words& words) {
    Rule rule;
    rule.name = "*";
    rule.after = duration(take_after(words, "after", "0s"));
    rule.address = take_after(words, "at", "");
    if (const std::string times = take_after(words, "times", ""); !times.empty()) {
        rule.times = number(times);
    }
    if (!words.empty() && is_transport(words.front())) {
        rule.transport = transport(take(words));
    }
    if (words.size() == 2) {
        rule.name = take(words);
    }
    rule.action = action(take(words));
    return rule;
}

Scenario read_scenario(const std::string& path) {
    std::ifstream in(path);
    if (!in) {
        throw SystemError("open " + path);
    }
    Scenario scenario;
    bool divided = false;
    for (std::string line; std::getline(in, line);) {
        if (divided) {
            scenario.expected.push_back(line);
            continue;
        }
        scenario.head += line + "\n";
        divided = line == kDivider;
        if (!divided && !says_nothing(line)) {
            scenario.script.push_back(line);
        }
    }
    return scenario;
}

} // namespace reprise::querier::testing
