#pragma once
// The conditions of a rule's `where`.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/prefix.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/values.hh"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace reprise::mutator {

/// Whether an item passes `where`. All conditions must hold; values of one condition are
/// alternatives, but flags must all be set. Closes of connections pass only where no condition is
/// on the message.
class Filter {
public:
    /// Takes the keys where.*; nothing where there are none.
    static std::unique_ptr<Filter> make(Arguments& arguments);

    /// Before the first matches(): the time of the trace's first query, from which seconds count.
    void begin(Nanoseconds first);

    [[nodiscard]] bool matches(const Item& item) const;

    /// No condition on the message or the time.
    [[nodiscard]] bool same_for_connection() const { return !on_message_ && !on_time_; }

private:
    [[nodiscard]] bool header_holds(Bytes message) const;
    [[nodiscard]] bool question_holds(Bytes message) const;
    [[nodiscard]] bool edns_holds(Bytes message) const;
    void read_time(Arguments& arguments);
    void read_message(Arguments& arguments);

    TraceTime from_{.absolute = true, .value = std::numeric_limits<Nanoseconds>::min()};
    TraceTime until_{.absolute = true, .value = std::numeric_limits<Nanoseconds>::max()};
    std::uint32_t transports_ = 0; ///< a bit each; 0 = any
    std::vector<Prefix> sources_;
    std::vector<Prefix> destinations_;
    std::vector<std::uint16_t> types_;
    std::vector<WireBytes> names_; ///< lower case
    std::uint32_t opcodes_ = 0;    ///< a bit each; 0 = any
    std::uint16_t flags_ = 0;
    std::optional<bool> edns_;
    std::optional<bool> dnssec_ok_;
    bool on_time_ = false;
    bool on_message_ = false; ///< some condition needs the message
};

} // namespace reprise::mutator
