//! Runs of up to 64 elements in one array, given back by their length.

/// An array with free runs of each length.
#[derive(Debug, Clone)]
pub(super) struct Arena<T> {
    data: Vec<T>,
    free: Vec<Vec<u32>>,
}

impl<T: Copy + Default> Arena<T> {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            data: Vec::new(),
            free: vec![Vec::new(); 65],
        }
    }

    /// Room for `n` elements, 64 at most; what stands there is of no meaning.
    pub fn take(&mut self, n: usize) -> u32 {
        if n == 0 {
            return 0;
        }
        if let Some(at) = self.free.get_mut(n).and_then(Vec::pop) {
            return at;
        }
        let at = self.data.len();
        if self.data.capacity() < at + n {
            // an eighth more at a time: the memory counts
            self.data.reserve_exact(n.max(at / 8));
        }
        self.data.resize(at + n, T::default());
        at as u32
    }

    /// Gives a run back.
    pub fn give(&mut self, at: u32, n: usize) {
        if n > 0
            && let Some(list) = self.free.get_mut(n)
        {
            list.push(at);
        }
    }

    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.data.get(at)
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.data.get_mut(at)
    }

    /// All of them, for prefetches.
    #[inline(always)]
    pub fn all(&self) -> &[T] {
        &self.data
    }

    /// A run; empty where there is none.
    pub fn run(&self, at: u32, n: usize) -> &[T] {
        self.data.get(at as usize..at as usize + n).unwrap_or(&[])
    }

    /// A run to be written.
    pub fn run_mut(&mut self, at: u32, n: usize) -> &mut [T] {
        self.data
            .get_mut(at as usize..at as usize + n)
            .unwrap_or(&mut [])
    }

    /// Bytes of elements, free ones included.
    pub fn bytes(&self) -> usize {
        self.data.len() * size_of::<T>()
    }

    /// Bytes on the heap.
    pub fn memory_bytes(&self) -> usize {
        self.data.capacity() * size_of::<T>()
            + self.free.iter().map(|f| f.capacity() * 4).sum::<usize>()
    }
}
