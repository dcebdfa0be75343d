#pragma once
// The server of a scenario: what it does with each query is said by rules, the first that fits.

#include "core/wire/query.hh"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace reprise::querier::testing {

enum class Action : std::uint8_t {
    kAnswer,
    kTruncate,  ///< an answer with TC
    kServfail,  ///< an answer with RCODE 2
    kDrop,      ///< nothing
    kTwice,     ///< the same answer two times
    kGarbage,   ///< bytes that are no DNS message
    kStranger,  ///< an answer to another question
    kTrail,     ///< an answer with three bytes behind it
    kClose,     ///< TCP: an answer, then FIN
    kHangUp,    ///< TCP: FIN without an answer
    kReset,     ///< TCP: RST without an answer
    kRefuse,    ///< TCP: RST for the SYN; UDP: an ICMP error
    kIgnore,    ///< TCP: nothing for the SYN
    kReadNot,   ///< TCP: it takes nothing from its socket
    kBadLength, ///< TCP: a message that claims to have 11 bytes
};

struct Rule {
    std::string name;                   ///< of the question; "*" = any
    std::optional<Transport> transport; ///< nothing = any
    std::string address;                ///< of the server or peer; empty = any
    Action action = Action::kAnswer;
    Nanoseconds after = 0;
    std::uint64_t times = ~std::uint64_t{0}; ///< how often it still holds
};

class Rules {
public:
    void add(Rule rule) { rules_.push_back(std::move(rule)); }

    /// What to do with a query for `name`; uses up the rule. `name` "SYN": with a connection's
    /// first segment.
    Rule take(const std::string& name, Transport transport, const std::string& address);

private:
    std::vector<Rule> rules_;
};

/// The answer to a query as an action wants it; empty for none.
std::vector<std::uint8_t> answer_to(Bytes query, Action action);

/// "www.example. A id 7" of a query, "www.example. A NOERROR" of an answer, with TC where it is.
std::string describe(Bytes message);

/// The name of its question; "?" where it has none.
std::string question_name(Bytes message);

} // namespace reprise::querier::testing
