#pragma once
#include "core/base/address.hh"
#include "core/base/append_file.hh"
#include "core/base/flat_ids.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::controller {

/// Numbers source addresses in order of appearance and writes them to sources.csv.
///
/// Memory a source: slots of 8 bytes (IPv4) and 20 bytes (IPv6), filled to between 3/8 and 3/4, so
/// 11 to 22 and 27 to 54 bytes; half as much again for the moment of growing.
class SourceTable {
public:
    /// Throws SystemError where the file cannot be written.
    explicit SourceTable(const std::string& path);

    std::uint32_t id_of(const IpAddress& address);

    /// Its id will be asked for soon.
    void expect(const IpAddress& address) const;

    [[nodiscard]] size_t size() const { return v4_.size() + v6_.size(); }

    /// Bytes of the table's slots.
    [[nodiscard]] size_t memory() const { return v4_.memory() + v6_.memory(); }

    /// Flushes what is new, and holds room for more; throws SystemError where the disk has none.
    void flush();

    /// No more sources come: returns when all is on the disk.
    void close() { file_.close(); }

private:
    template <size_t Size> std::uint32_t find(FlatIds<Size>& ids, const IpAddress& address);

    AppendFile file_;
    std::string line_;
    FlatIds<4> v4_;
    FlatIds<16> v6_;
    size_t flushed_ = 0; ///< sources already in the file
};

} // namespace reprise::controller
