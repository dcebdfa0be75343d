#pragma once
#include "core/base/address.hh"
#include "core/base/address_ids.hh"
#include "core/base/append_file.hh"

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::controller {

/// Numbers source addresses in order of appearance and writes them to sources.csv.
class SourceTable {
public:
    /// Throws SystemError where the file cannot be written.
    explicit SourceTable(const std::string& path);

    std::uint32_t id_of(const IpAddress& address);

    /// Its id will be asked for soon.
    void expect(const IpAddress& address) const { ids_.expect(address); }

    [[nodiscard]] size_t size() const { return ids_.size(); }

    /// Bytes of the table's slots.
    [[nodiscard]] size_t memory() const { return ids_.memory(); }

    /// Flushes what is new, and holds room for more; throws SystemError where the disk has none.
    void flush();

    /// No more sources come: returns when all is on the disk.
    void close() { file_.close(); }

private:
    AppendFile file_;
    std::string line_;
    AddressIds ids_;
    size_t flushed_ = 0; ///< sources already in the file
};

} // namespace reprise::controller
