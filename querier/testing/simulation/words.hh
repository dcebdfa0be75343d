#pragma once
// Scripts of scenarios, word by word. What is wrong throws Error.

#include "core/base/error.hh"
#include "core/wire/query.hh"
#include "querier/testing/simulation/scenario.hh"
#include "querier/testing/simulation/server.hh"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::querier::testing {

using Words = std::deque<std::string>;

/// By the first word of a line, what takes the others.
using Verbs = std::map<std::string, std::function<void(Words&)>>;

/// Carries out a script. Throws Error naming the line that is wrong.
void carry_out(const Scenario& scenario, const Verbs& verbs);

/// The first, which is taken off.
std::string take(Words& words);

/// The word behind `key`, which may stand anywhere.
std::string take_after(Words& words, std::string_view key, const std::string& otherwise);

/// The key of a setting; where it names no table it is one of the replay's.
std::string take_key(Words& words);

/// What was read, which must have been well formed.
template <typename T> T parsed(std::optional<T> value, const std::string& text) {
    if (!value) {
        throw Error(text + " has the wrong form");
    }
    return *value;
}

std::uint64_t number(const std::string& text);

/// "20ms", "1.5s", "3us".
Nanoseconds duration(const std::string& text);

Transport transport(const std::string& name);
bool is_transport(const std::string& word);
Action action(const std::string& word);

/// [udp|tcp|tls] [NAME] ACTION [at ADDRESS] [after TIME] [times N]
Rule rule_of(Words& words);

} // namespace reprise::querier::testing
