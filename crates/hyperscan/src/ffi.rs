//! The library's functions, as `hs_common.h`, `hs_compile.h` and `hs_runtime.h` of version 5 declare them, and what
//! they own.
#![allow(unsafe_code)]

use crate::check::check;
use crate::{CompileError, Expression, Failure, Missing};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

const HS_SUCCESS: c_int = 0;
const HS_SCAN_TERMINATED: c_int = -3;
const HS_NOMEM: c_int = -2;
const HS_FLAG_CASELESS: c_uint = 1;
const HS_FLAG_SINGLEMATCH: c_uint = 8;
const HS_MODE_BLOCK: c_uint = 1;
const HS_EXT_FLAG_MIN_OFFSET: c_ulonglong = 1;
const HS_EXT_FLAG_MAX_OFFSET: c_ulonglong = 2;

/// `hs_expr_ext_t`.
#[repr(C)]
#[derive(Debug, Default)]
struct ExprExt {
    flags: c_ulonglong,
    min_offset: c_ulonglong,
    max_offset: c_ulonglong,
    min_length: c_ulonglong,
    edit_distance: c_uint,
    hamming_distance: c_uint,
}

/// `hs_compile_error_t`.
#[repr(C)]
struct RawCompileError {
    message: *mut c_char,
    expression: c_int,
}

/// `match_event_handler`: id, from, to, flags, context.
type OnMatch = extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;
/// `hs_version`.
type Version = unsafe extern "C" fn() -> *const c_char;
/// `hs_valid_platform`.
type ValidPlatform = unsafe extern "C" fn() -> c_int;
/// `hs_compile_ext_multi`: expressions, flags, ids, ext, elements, mode, platform, db, error.
type CompileExtMulti = unsafe extern "C" fn(
    *const *const c_char,
    *const c_uint,
    *const c_uint,
    *const *const ExprExt,
    c_uint,
    c_uint,
    *const c_void,
    *mut *mut c_void,
    *mut *mut RawCompileError,
) -> c_int;
/// `hs_free_compile_error`.
type FreeCompileError = unsafe extern "C" fn(*mut RawCompileError) -> c_int;
/// `hs_free_database` and `hs_free_scratch`.
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `hs_database_size`.
type DatabaseSize = unsafe extern "C" fn(*const c_void, *mut usize) -> c_int;
/// `hs_alloc_scratch`.
type AllocScratch = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;
/// `hs_scan`: database, data, length, flags, scratch, on match, context.
type Scan = unsafe extern "C" fn(
    *const c_void,
    *const c_char,
    c_uint,
    c_uint,
    *mut c_void,
    OnMatch,
    *mut c_void,
) -> c_int;

/// The library, open until the process ends.
#[derive(Debug)]
pub struct Library {
    version: String,
    compile_ext_multi: CompileExtMulti,
    free_compile_error: FreeCompileError,
    free_database: Free,
    database_size: DatabaseSize,
    alloc_scratch: AllocScratch,
    free_scratch: Free,
    scan: Scan,
}

/// A name of a function that the library must have.
macro_rules! symbol {
    ($handle:expr, $name:literal, $type:ty) => {{
        // SAFETY: the handle is of an open library, the name ends with a zero byte
        let p = unsafe { libc::dlsym($handle.as_ptr(), concat!($name, "\0").as_ptr().cast()) };
        if p.is_null() {
            return Err(Missing::NoSymbol($name));
        }
        // SAFETY: the library's public header, the same in all releases of version 5 (its soname), declares this
        // function with this type; a function's address and a data pointer have one size on every system that has
        // dlsym
        unsafe { std::mem::transmute::<*mut c_void, $type>(p) }
    }};
}

/// The library, opened and tried by the first who asks.
///
/// # Errors
/// It is not there, not usable, or wrong; so for the life of the process.
pub fn library() -> Result<&'static Library, &'static Missing> {
    static CHECKED: OnceLock<Result<&'static Library, Missing>> = OnceLock::new();
    let checked = CHECKED.get_or_init(|| {
        let library = unchecked().map_err(Clone::clone)?;
        check(library).map_err(|what| Missing::Wrong(library.version.clone(), what))?;
        Ok(library)
    });
    checked.as_ref().copied()
}

/// The library, whatever it finds.
pub(crate) fn unchecked() -> Result<&'static Library, &'static Missing> {
    static LIBRARY: OnceLock<Result<Library, Missing>> = OnceLock::new();
    LIBRARY.get_or_init(Library::open).as_ref()
}

impl Library {
    fn open() -> Result<Library, Missing> {
        // SAFETY: the name ends with a zero byte; the library's initialisers are those of a public C++ library. It is
        // never closed, so what is looked up in it stays valid.
        let handle =
            unsafe { libc::dlopen(c"libhs.so.5".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or(Missing::NotInstalled)?;
        let version = symbol!(handle, "hs_version", Version);
        let valid_platform = symbol!(handle, "hs_valid_platform", ValidPlatform);
        // SAFETY: takes nothing; may be called on any processor
        if unsafe { valid_platform() } != HS_SUCCESS {
            return Err(Missing::Processor);
        }
        // SAFETY: takes nothing, gives a static string
        let version = unsafe { CStr::from_ptr(version()) };
        let version = version.to_string_lossy();
        Ok(Library {
            // "5.4.9 2023-01-30"
            version: version.split(' ').next().unwrap_or("").to_string(),
            compile_ext_multi: symbol!(handle, "hs_compile_ext_multi", CompileExtMulti),
            free_compile_error: symbol!(handle, "hs_free_compile_error", FreeCompileError),
            free_database: symbol!(handle, "hs_free_database", Free),
            database_size: symbol!(handle, "hs_database_size", DatabaseSize),
            alloc_scratch: symbol!(handle, "hs_alloc_scratch", AllocScratch),
            free_scratch: symbol!(handle, "hs_free_scratch", Free),
            scan: symbol!(handle, "hs_scan", Scan),
        })
    }

    /// Its version, such as `5.4.9`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whose it is, by its version: Hyperscan's last one with this interface is 5.4.2, Vectorscan's first one 5.4.3.
    pub fn is_hyperscan(&self) -> bool {
        let mut numbers = self.version.split('.').map(|n| n.parse().unwrap_or(0u32));
        let mut next = || numbers.next().unwrap_or(0);
        [next(), next(), next()] <= [5, 4, 2]
    }

    /// Makes a database. May take seconds: not for the threads of packets.
    ///
    /// # Errors
    /// An expression that the library has not, or that is too large for it; no expression at all.
    pub fn compile(&'static self, expressions: &[Expression]) -> Result<Database, CompileError> {
        let other = |message: &str| CompileError {
            expression: None,
            message: message.to_string(),
        };
        let n = c_uint::try_from(expressions.len()).map_err(|_| other("too many expressions"))?;
        let texts: Vec<*const c_char> = expressions.iter().map(|e| e.text.as_ptr()).collect();
        let flags: Vec<c_uint> = (expressions.iter())
            .map(|e| HS_FLAG_SINGLEMATCH | if e.caseless { HS_FLAG_CASELESS } else { 0 })
            .collect();
        let ids: Vec<c_uint> = expressions.iter().map(|e| e.id).collect();
        let bounds: Vec<ExprExt> = expressions.iter().map(bounds).collect();
        let bounds: Vec<*const ExprExt> = (bounds.iter())
            .map(|b| {
                if b.flags == 0 {
                    std::ptr::null()
                } else {
                    std::ptr::from_ref(b)
                }
            })
            .collect();
        let mut database = std::ptr::null_mut();
        let mut error: *mut RawCompileError = std::ptr::null_mut();
        // SAFETY: four arrays of `n` elements that outlive the call, strings that end with zero bytes, null for "this
        // processor", and two places for results
        let status = unsafe {
            (self.compile_ext_multi)(
                texts.as_ptr(),
                flags.as_ptr(),
                ids.as_ptr(),
                bounds.as_ptr(),
                n,
                HS_MODE_BLOCK,
                std::ptr::null(),
                &raw mut database,
                &raw mut error,
            )
        };
        if let (HS_SUCCESS, Some(raw)) = (status, NonNull::new(database)) {
            return Ok(Database { library: self, raw });
        }
        let Some(e) = NonNull::new(error) else {
            return Err(other(&Failure(status).to_string()));
        };
        // SAFETY: a failed compilation gives an error of the library's own, whose message is null or ends with a zero
        // byte
        let said = unsafe {
            let e = e.as_ref();
            let message = NonNull::new(e.message).map(|m| CStr::from_ptr(m.as_ptr()));
            CompileError {
                expression: usize::try_from(e.expression).ok(),
                message: message.map_or_else(String::new, |m| m.to_string_lossy().into_owned()),
            }
        };
        // SAFETY: it is the library's, and not used any more
        unsafe { (self.free_compile_error)(e.as_ptr()) };
        Err(said)
    }
}

/// Where matches may end.
fn bounds(e: &Expression) -> ExprExt {
    let flag = |b: Option<u64>, flag| if b.is_some() { flag } else { 0 };
    ExprExt {
        flags: flag(e.min_end, HS_EXT_FLAG_MIN_OFFSET) | flag(e.max_end, HS_EXT_FLAG_MAX_OFFSET),
        min_offset: e.min_end.unwrap_or(0),
        max_offset: e.max_end.unwrap_or(0),
        ..ExprExt::default()
    }
}

/// Expressions, compiled. Immutable.
#[derive(Debug)]
pub struct Database {
    library: &'static Library,
    raw: NonNull<c_void>,
}

// SAFETY: a database belongs to no thread
unsafe impl Send for Database {}
// SAFETY: no function of the library that takes a database writes to it; its documentation lets any number of threads
// scan with one database
unsafe impl Sync for Database {}

impl Database {
    /// Its size in bytes.
    pub fn size(&self) -> usize {
        let mut n = 0;
        // SAFETY: the database is one, and there is a place for the result
        let status = unsafe { (self.library.database_size)(self.raw.as_ptr(), &raw mut n) };
        if status == HS_SUCCESS { n } else { 0 }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: made by the library, used by nobody any more: scanners hold the database, too
        unsafe { (self.library.free_database)(self.raw.as_ptr()) };
    }
}

/// Looks for a database's expressions. For one executor: scanning takes `&mut self`.
#[derive(Debug)]
pub struct Scanner {
    database: Arc<Database>,
    /// Room to work in (`hs_scratch_t`).
    scratch: NonNull<c_void>,
}

// SAFETY: scratch belongs to no thread; whoever has the scanner has it alone
unsafe impl Send for Scanner {}
// SAFETY: scratch is only reached through `&mut self`; a clone asks the database for one of its own
unsafe impl Sync for Scanner {}

impl Scanner {
    /// With room for this database.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(database: Arc<Database>) -> Result<Scanner, Failure> {
        let mut scratch = std::ptr::null_mut();
        // SAFETY: the database is one; a null scratch asks for a new one
        let status =
            unsafe { (database.library.alloc_scratch)(database.raw.as_ptr(), &raw mut scratch) };
        match NonNull::new(scratch) {
            Some(scratch) if status == HS_SUCCESS => Ok(Scanner { database, scratch }),
            _ => Err(Failure(status)),
        }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Looks for all expressions; `found` is told the number of each that is there, once, in no order, and says
    /// whether to go on. Neither allocates nor locks.
    ///
    /// # Errors
    /// The library failed (more than 4 GiB of data are one reason): what `found` was told may be incomplete.
    pub fn scan<F: FnMut(u32) -> bool>(
        &mut self,
        data: &[u8],
        mut found: F,
    ) -> Result<(), Failure> {
        extern "C" fn on_match<F: FnMut(u32) -> bool>(
            id: c_uint,
            _: c_ulonglong,
            _: c_ulonglong,
            _: c_uint,
            context: *mut c_void,
        ) -> c_int {
            // SAFETY: the context is the closure that `scan` lends for the time of the call, to nobody else
            let found = unsafe { &mut *context.cast::<F>() };
            // a panic would end the process here: it cannot unwind through the library
            c_int::from(!found(id))
        }
        let Ok(len) = c_uint::try_from(data.len()) else {
            return Err(Failure(HS_NOMEM));
        };
        // SAFETY: database and scratch fit one another (`new`), nobody else uses the scratch (`&mut self`), the data
        // is `len` bytes long (a slice's pointer is never null), and `on_match` gets the closure that it is made for
        let status = unsafe {
            (self.database.library.scan)(
                self.database.raw.as_ptr(),
                data.as_ptr().cast(),
                len,
                0,
                self.scratch.as_ptr(),
                on_match::<F>,
                (&raw mut found).cast(),
            )
        };
        match status {
            HS_SUCCESS | HS_SCAN_TERMINATED => Ok(()),
            e => Err(Failure(e)),
        }
    }
}

impl Clone for Scanner {
    /// Shares the database. As with any clone, no memory for it ends the process.
    fn clone(&self) -> Scanner {
        Scanner::new(self.database.clone()).unwrap_or_else(|_| {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 1 << 16]>())
        })
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        // SAFETY: made by the library for this scanner alone
        unsafe { (self.database.library.free_scratch)(self.scratch.as_ptr()) };
    }
}
