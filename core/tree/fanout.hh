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
// but is in no count of queries. Credit is in records and in their bytes (core/wire/record.hh).

#include "core/tree/host.hh"
#include "core/wire/frame.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::tree {

inline constexpr Nanoseconds kHeartbeat = 400 * kMillisecond;
inline constexpr Nanoseconds kChildSilence = 5 * kSecond;
/// A child's clock is known after so many probes, or, on a slow link, after so much time and fewer.
inline constexpr unsigned kProbes = 64;
inline constexpr unsigned kFewestProbes = 8;
inline constexpr Nanoseconds kProbing = 3 * kSecond;

struct ClockSample {
    Nanoseconds when = 0;   ///< own clock
    Nanoseconds offset = 0; ///< the other clock minus ours
    Nanoseconds round_trip = 0;
};

/// A host's clock offset by in-band probes: of many, the one with the least round trip has the
/// least asymmetry, so it says most (the filter of NTP, RFC 5905 section 10). Its error is at most
/// half its round trip.
class ClockOffset {
public:
    /// A probe sent at `sent` (own clock), answered at `remote` (other clock), back at `received`
    /// (own clock).
    void add(Nanoseconds sent, Nanoseconds remote, Nanoseconds received);

    [[nodiscard]] size_t count() const { return count_; }

    /// The sample with the least round trip so far, or until settle().
    [[nodiscard]] const ClockSample& best() const { return best_; }

    /// best() stays as it is: times were announced by it.
    void settle() { settled_ = true; }

    /// The sample with the least round trip of the last ten seconds; of the second half where there
    /// are less than twenty. Equal to best() where no time has passed.
    [[nodiscard]] ClockSample latest() const;

    /// One sample for each second, the best of that second: how the clocks drift. Recorded, never
    /// applied during a run.
    [[nodiscard]] const std::vector<ClockSample>& series() const { return series_; }

private:
    size_t count_ = 0;
    bool settled_ = false;
    ClockSample best_;
    std::vector<ClockSample> series_;
};

/// Which child gets a source's queries. Sticky: a source keeps its child for the whole run, so its
/// queries share one socket or connection, in order.
///
/// Most sources go by weighted rendezvous hashing (Thaler and Ravishankar 1998; weights as in
/// Schindelhauer and Schomaker 2005): no table, no state. But a few sources dominate real traces
/// and a hash can put them together; so the heavy ones of the first window are placed by hand,
/// largest first on the least loaded child, before anything is sent. The table is bounded and the
/// result depends on the trace and the children's names only.
class Assignment {
public:
    /// Adds a child, before anything else is asked; there must be one. `weight`: the queriers below
    /// it. The name salts the hash: levels of a tree are independent.
    void add(std::string_view name, double weight);

    /// Index of the child for a source.
    [[nodiscard]] size_t child_of(const IpAddress& source) const;

    /// Places the heavy sources among `queries_by_source`, the counts of the first window. Call
    /// once, before child_of().
    void place_heavy(const std::unordered_map<IpAddress, std::uint64_t>& queries_by_source);

private:
    struct Child {
        std::uint64_t seed = 0;
        double weight = 1;
    };

    [[nodiscard]] size_t by_hash(const IpAddress& source) const;

    std::vector<Child> children_;
    std::unordered_map<IpAddress, std::uint32_t> heavy_;
};

/// A child to connect to.
struct Peer {
    std::string name; ///< empty: as its Hello says
    Endpoint endpoint;
};

/// Reads "[NAME=]ADDRESS:PORT", the values of an option. Throws UsageError naming the bad one.
std::vector<Peer> parse_peers(std::string_view option, const std::vector<std::string>& texts);

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

    void probe(Nanoseconds now) const;

    /// A query or close, which goes when its block is full. Beyond the credit it waits.
    void take(const RecordView& query);

    /// Sends the block that is being filled, or lets it wait.
    void close_block();

    /// Sends what waits, as far as the credit goes.
    void send_waiting();

    /// Drops what waits.
    void discard();
};

using Children = std::vector<std::unique_ptr<Child>>;

bool all_over(const Children& children);

/// Sum over the children's last Status, and how old it is.
wire::Status status_of(const Children& children, Nanoseconds now);

/// Queriers below and what they take in all.
std::uint32_t queriers_of(const Children& children);
Credit credit_of(const Children& children);

/// Bytes on links that the kernel has not taken.
size_t unsent_of(const Children& children);

Nanoseconds longest_round_trip(const Children& children);

/// Queries given to the children, lost ones included.
std::uint64_t assigned_of(const Children& children);

/// Largest share of a child in them over its fair share, by the queriers below: 1 is perfect. 0
/// where nothing was assigned.
double imbalance_of(const Children& children);

/// Tells when this process itself stood still: stopped, or without processor time.
class Beat {
public:
    /// `most`: time between two beats that is no pause.
    Beat(Nanoseconds now, Nanoseconds most) : last_(now), most_(most) {}

    /// Whether a pause ends now.
    bool beat(Nanoseconds now) {
        if (const Nanoseconds gap = now - std::exchange(last_, now); gap > most_) {
            pause_ = gap;
            end_ = now;
        }
        return pause_ > 0 && end_ == now;
    }

    /// The last pause, if it ended so short a time ago; else 0.
    [[nodiscard]] Nanoseconds pause(Nanoseconds now, Nanoseconds within) const {
        return now - end_ > within ? 0 : pause_;
    }

private:
    Nanoseconds last_;
    Nanoseconds most_;
    Nanoseconds pause_ = 0;
    Nanoseconds end_ = 0;
};

/// Whole records of the first window, kept until it is there: heavy sources are known then.
struct FirstWindow {
    std::deque<std::string> pieces; ///< each is freed when it has been handed on
    size_t bytes = 0;               ///< of all pieces
    std::unordered_map<IpAddress, std::uint64_t> sources; ///< their queries

    /// `children`: that will get them. For a single one no sources are counted.
    void add(Bytes records, const Children& children);
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

    /// Places the heavy sources and gives the window's records, before any other query; as give().
    std::string give_first(FirstWindow& window);

    /// Gives a query to the child of its source if that child takes it within its credit; else
    /// false. A child that is over takes all: they are lost with it.
    bool offer(const RecordView& query);

    /// Gives the queries of a block to the children of their sources. Beyond the credit they wait
    /// here. What is wrong with the block, or empty: then all of it was given.
    std::string give(Bytes block);

    /// Sends the blocks begun.
    void flush();

    /// Announces the start in each child's own clock. `start` is on ours.
    void start(Nanoseconds start, Nanoseconds start_real, Nanoseconds trace_first);

    /// No more queries.
    void end();

    /// Tells all children to stop in order; what waits here is lost.
    void abort(const std::string& because);

    [[nodiscard]] const Children& children() const { return children_; }

private:
    void on_frame(Child& child, wire::Frame& frame);
    void on_hello(Child& child, const wire::Hello& hello);
    void on_reply(Child& child, const wire::ClockReply& reply);
    void all_ready();
    void on_finished(Child& child, const wire::Finished& finished);
    Child& child_of(const RecordView& query);
    void give(Child& child, const RecordView& query);
    void settle(Child& child);
    void heartbeat();
    void lose(Child& child, const std::string& because);

    const Clock& clock_;
    std::string run_;
    std::string own_name_;
    Events events_;
    Children children_;
    Assignment assignment_;
    /// Child by source id, plus 1; 0: not yet known. Two bytes a source instead of a hash a query.
    std::vector<std::uint16_t> known_;
    wire::Hello own_;
    std::unique_ptr<Timer> heartbeat_;
    Credit dropped_; ///< given to children that are over, since the last flush
    Beat beat_;
    bool over_told_ = false;
    bool aborted_ = false;
};

} // namespace reprise::tree
