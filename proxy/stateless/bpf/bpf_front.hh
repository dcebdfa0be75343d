#pragma once
// The front in the kernel: loads the BPF programs, keeps what they need true, and counts.

#include "core/base/clock.hh"
#include "proxy/stateless/bpf/link.hh"
#include "proxy/stateless/bpf/programs.hh"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <cstdint>
#include <optional>
#include <string>

namespace reprise::proxy {

class BpfFront : public Front {
public:
    /// Serves from now on. Throws UsageError, Error or SystemError, with nothing left on the host.
    explicit BpfFront(const StatelessOptions& options);
    ~BpfFront() override;
    BpfFront(const BpfFront&) = delete;
    BpfFront& operator=(const BpfFront&) = delete;

    /// Removes what a killed front left on the interface. Throws UsageError, Error where a front
    /// serves it, SystemError.
    static void repair(const std::string& interface);

    [[nodiscard]] Counters counters() override;

private:
    void refresh(Nanoseconds now) override;
    void renew_secret();
    void look_at_host();

    Link link_;
    Programs programs_;
    std::optional<Hooks> hooks_;
    bool tx_was_on_ = false; ///< the interface computed checksums
    Nanoseconds next_secret_ = 0;
    std::uint64_t expired_ = 0;
};

} // namespace reprise::proxy
