#pragma once
// The tc hooks of an interface, where packets come in and leave.

#include "proxy/stateless/bpf/shared.h"

#include <cstdint>
#include <optional>

namespace reprise::proxy {

/// Our programs at both hooks, until the end of this.
class Hooks {
public:
    /// Puts the programs, by their descriptors, in the place of those that an earlier front has
    /// left. Throws SystemError.
    Hooks(int interface, int in, int out);
    ~Hooks();
    Hooks(const Hooks&) = delete;
    Hooks& operator=(const Hooks&) = delete;

    /// Whether the hooks themselves were made for the programs, and go with them.
    [[nodiscard]] bool whole() const { return whole_; }

private:
    void remove() const;

    int interface_;
    bool whole_ = false;
};

/// Whether programs of a front are at the interface.
bool has_programs(int interface);

/// The state of a front that was killed and has left its programs there.
std::optional<StatelessState> left_behind(int interface);

} // namespace reprise::proxy
