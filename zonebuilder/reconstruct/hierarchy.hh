#pragma once
// Which zones there are, and who speaks for each.

#include "core/base/address.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/strings.hh"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

using CutIndex = std::uint32_t;

/// A zone that somebody told of; it need not be built.
struct Cut {
    NameId name = NameTable::kRoot;
    std::vector<NameId> targets{};    ///< of its NS records, the parent's and its own; sorted
    std::vector<ServerId> servers{};  ///< that may speak for it; sorted
    std::vector<ServerId> unlisted{}; ///< of them, those that no NS record leads to; sorted
    bool delegated = false;           ///< a server of a zone above refers to it
    bool claimed = false;             ///< one of its servers showed its name
    bool assumed = false;             ///< nobody named it: it stands for answers without a SOA
};

/// A server claimed a zone, but was asked only for names in lower zones that it serves.
struct Distrust {
    ServerId server = 0;
    NameId zone = NameTable::kRoot;
    Nanoseconds time = 0;
};

class Hierarchy {
public:
    static constexpr CutIndex kNone = 0xffffffff;

    /// Finds out whom to believe; see hierarchy.cc. `observations` must stay where it is.
    explicit Hierarchy(Observations& observations);

    [[nodiscard]] const std::vector<Cut>& cuts() const { return cuts_; }

    [[nodiscard]] CutIndex at(NameId name) const {
        return name < cut_at_.size() ? cut_at_[name] : kNone;
    }

    /// The lowest zone that encloses the name, kNone where there is none.
    [[nodiscard]] CutIndex enclosing(NameId name) const;

    /// The same without a zone of this name itself.
    [[nodiscard]] CutIndex above(NameId name) const;

    /// The lowest one that the server may speak for.
    [[nodiscard]] CutIndex enclosing_of(ServerId server, NameId name) const;
    [[nodiscard]] CutIndex above_of(ServerId server, NameId name) const;

    /// Whether the server speaks for a zone that encloses the name.
    [[nodiscard]] bool trusts(ServerId server, NameId name) const {
        return enclosing_of(server, name) != kNone;
    }

    [[nodiscard]] bool serves(ServerId server, CutIndex cut) const;

    /// Of a name server, from glue or its own zone; sorted.
    [[nodiscard]] const std::vector<IpAddress>& addresses(NameId target) const;

    [[nodiscard]] const std::vector<Distrust>& distrusted() const { return distrusted_; }

    /// NameKey servers of zones and addresses of name servers beyond what a zone or server may
    /// have.
    [[nodiscard]] std::uint64_t over_limit() const { return over_limit_; }

private:
    class Discovery;

    std::vector<Cut> cuts_;
    std::vector<CutIndex> cut_at_;               ///< of a NameId
    std::vector<std::vector<CutIndex>> cuts_of_; ///< of a ServerId; sorted
    std::unordered_map<NameId, std::vector<IpAddress>> addresses_;
    std::vector<Distrust> distrusted_;
    std::uint64_t over_limit_ = 0;
    const NameTable* names_;
};

} // namespace reprise::zonebuilder
