#pragma once
// The distributor of a scenario, at the other end of the querier's control link.

#include "core/wire/frame.hh"
#include "querier/process.hh"
#include "querier/testing/simulation/timeline.hh"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace reprise::querier::testing {

class SimulatedParent final : public ControlLink {
public:
    explicit SimulatedParent(Timeline& timeline) : timeline_(timeline) {}

    /// To be called before the querier says hello. The queries must be sorted by their due times,
    /// and so must what they borrow outlive this. `ahead`: how long before its time one is handed
    /// out.
    void play(const wire::Options& options, std::vector<Query> queries, Nanoseconds ahead);

    /// From now on it says nothing any more.
    void fall_silent() { silent_ = true; }

    /// It closes its end.
    void leave() { gone_ = true; }

    void abort(const std::string& because);

    /// Credit that comes back is written down.
    void show_credit() { show_credit_ = true; }

    [[nodiscard]] bool readable() const { return !to_read_.empty() || gone_; }

    /// From the querier's Finished.
    [[nodiscard]] const wire::QuerierReport& report() const { return report_; }

    // ControlLink

    void send(const wire::Frame& frame) override;

    void flush(int /*limit_ms*/) override {}

    std::optional<Bytes> receive() override;

private:
    void tell(wire::Frame frame);
    void begin(const wire::Hello& hello);
    void hand_out();
    void probe();

    Timeline& timeline_;
    wire::Options options_;
    std::vector<Query> queries_;
    size_t handed_ = 0;
    std::uint64_t queries_told_ = 0; ///< without closes
    Nanoseconds ahead_ = 0;
    Credit credit_;
    bool ended_ = false;
    bool silent_ = false;
    bool gone_ = false;
    bool show_credit_ = false;
    std::deque<wire::Frame> to_read_;
    std::string read_; ///< by the last receive()
    wire::QuerierReport report_;
};

} // namespace reprise::querier::testing
