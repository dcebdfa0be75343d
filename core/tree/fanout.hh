#pragma once
// A parent's side of the tree: its children, their credits, clocks, and what becomes of their
// queries. The controller and every distributor have one.
//
// Life of a child: Hello -> probes (clock known: ready) -> Setup -> Blocks, Start, more Blocks ->
// EndOfTrace -> Finished. A child is lost when its link goes down before Finished or when nothing
// came from it for kChildSilence. Queries given to a lost child, before or after, are lost with it:
// they are counted, never given to another, because a source keeps its child.
//
// A close (RecordView::is_close()) goes to the child of its source and takes credit like a query,
// but is in no count of queries. Credit is in records and in their bytes (core/wire/credit.hh).

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/tree/assignment.hh"
#include "core/tree/block_frame.hh"
#include "core/tree/clock_offset.hh"
#include "core/tree/host.hh"
#include "core/wire/credit.hh"
#include "core/wire/record.hh"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace reprise::tree {

inline constexpr Nanoseconds kHeartbeat = 400 * kMillisecond;
/// A child that hears nothing from its parent for so long stops in order.
inline constexpr Nanoseconds kParentSilence = 1800 * kMillisecond;
inline constexpr Nanoseconds kChildSilence = 5 * kSecond;
inline constexpr unsigned kProbes = 64;

/// What a parent knows of one child.
struct Child {
    std::string name;    ///< as configured; Hello may refine it
    std::string address; ///< for messages
    std::unique_ptr<Link> link;
    wire::Hello hello;
    ClockOffset clock;
    bool same_clock = false;
    bool ready = false;
    bool finished = false;
    bool lost = false;
    std::string lost_because;
    Credit credit;               ///< what it takes now
    std::uint64_t assigned = 0;  ///< queries given to it, lost ones included
    Credit uncredited;           ///< given to it and not yet returned
    wire::Status status;         ///< the last one
    Nanoseconds status_time = 0; ///< when it came; 0: none did yet
    std::vector<wire::QuerierReport> reports;

    BlockBuilder pending;         ///< block being filled
    std::deque<Outgoing> waiting; ///< beyond its credit; bounded by our parent's credit
    Credit queued;                ///< what both take

    [[nodiscard]] bool over() const { return finished || lost; }
};

class Fanout {
public:
    struct Events {
        std::function<void()> ready; ///< all children are, once
        std::function<void(const Credit&)>
            credit; ///< so much left the schedules below, or was lost there
        std::function<void(const std::string&)> abort; ///< a child asks to stop the run
        std::function<void(const Child&)> lost;        ///< a child was lost
        std::function<void()> over;                    ///< every child finished or is lost, once
    };

    /// `own_name`: this program, in reasons.
    Fanout(Host& host, std::string run, Events events, std::string own_name = "the parent");

    /// Adds a child before the loop runs. `address` is for messages.
    Child& add(std::string name, std::string address, std::unique_ptr<Link> link);

    /// Sends Setup to all. After ready.
    void setup(const wire::Options& options);

    /// Places the heavy sources; once, before give().
    void place_heavy(const std::unordered_map<IpAddress, std::uint64_t>& queries_by_source);

    /// Gives a query to the child of its source if that child takes it within its credit; else
    /// false. A child that is over takes all: they are lost with it.
    bool offer(const RecordView& query);

    /// Gives a query to the child of its source. Beyond the credit it waits here.
    void give(const RecordView& query);

    /// Sends the blocks begun.
    void flush();

    /// Announces the start in each child's own clock. `start` is on ours.
    void start(Nanoseconds start, Nanoseconds start_real, Nanoseconds trace_first);

    /// No more queries.
    void end();

    /// Tells all children to stop in order; what waits here is lost.
    void abort(const std::string& because);

    /// Counts a child as lost now, for a reason its link cannot see (a querier process ended).
    void lose(Child& child, const std::string& because);

    [[nodiscard]] const std::vector<std::unique_ptr<Child>>& children() const { return children_; }

    [[nodiscard]] bool over() const;
    /// Sum over the children's last Status, and how old it is.
    [[nodiscard]] wire::Status status() const;
    /// Queriers below and what they take in all.
    [[nodiscard]] std::uint32_t queriers() const;
    [[nodiscard]] Credit credit() const;
    /// Bytes on links that the kernel has not taken.
    [[nodiscard]] size_t unsent() const;
    [[nodiscard]] Nanoseconds longest_round_trip() const;
    [[nodiscard]] double imbalance() const;

private:
    void on_frame(Child& child, wire::Frame& frame);
    void on_hello(Child& child, const wire::Hello& hello);
    void on_reply(Child& child, const wire::ClockReply& reply);
    void on_credit(Child& child, const Credit& credit);
    void on_finished(Child& child, const wire::Finished& finished);
    Child& child_of(const RecordView& query);
    void give_to(Child& child, const RecordView& query);
    static void discard(Child& child);
    void drop_waiting(Child& child);
    void close_block(Child& child);
    void send_waiting(Child& child);
    void probe(Child& child);
    void heartbeat();
    void note_pause(Nanoseconds now);
    [[nodiscard]] std::string reason_to_lose(const std::string& because);
    bool names_differ();
    void ready_if_all();
    void over_if_all();

    const Clock& clock_;
    std::string run_;
    std::string own_name_;
    Events events_;
    std::vector<std::unique_ptr<Child>> children_;
    std::unique_ptr<Assignment> assignment_;
    /// Child by source id, plus 1; 0: not yet known. Two bytes a source instead of a hash a query.
    std::vector<std::uint16_t> known_;
    wire::Hello own_;
    std::unique_ptr<Timer> heartbeat_;
    Credit dropped_;                  ///< given to children that are over, since the last flush
    Nanoseconds beat_ = clock_.now(); ///< the last heartbeat
    Nanoseconds pause_ = 0;           ///< of this process, the last one
    Nanoseconds pause_end_ = 0;
    bool over_told_ = false;
    bool aborted_ = false;
};

} // namespace reprise::tree
